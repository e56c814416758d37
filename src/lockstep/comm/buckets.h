// How a vector that ranks exchange is cut, so that its parts can go while the rest is still being made.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/ScalarType.h>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// The fewest elements worth sending apart, of a vector of `count`: the group exchanges larger and larger
/// ones (4 MiB of floats at most), until one element costs no more than a quarter less for it. Some
/// milliseconds in shared memory. A collective; the same on all ranks, and `count` where nothing is sent.
int64_t measure_bucket(Communicator& comm, at::ScalarType type, int64_t count);

/// Parts of [0, count), the last first, for backward makes the gradients of the last layers first. They begin
/// at some of `starts` (ascending, from 0) and have `least` elements or more.
std::vector<Range> cut_buckets(const std::vector<int64_t>& starts, int64_t count, int64_t least);

}  // namespace lockstep::comm
