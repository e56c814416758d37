// Cuts a vector that ranks exchange into parts, so that the first parts can be sent while the rest is being
// computed.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/TensorOptions.h>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// The smallest number of elements worth sending separately, of a vector of `count` elements. The group
/// exchanges larger and larger parts (4 MiB of floats at most) until an element costs at most a quarter more
/// than in the next larger part. Takes some milliseconds in shared memory. Collective; returns the same on
/// all ranks, and `count` where nothing is sent. kind: type and device of the vector.
int64_t measure_bucket(Communicator& comm, const at::TensorOptions& kind, int64_t count);

/// Parts of [0, count), the last one first, because backward computes the gradients of the last layers first.
/// Parts begin at some of `starts` (ascending, from 0) and have at least `least` elements.
std::vector<Range> cut_buckets(const std::vector<int64_t>& starts, int64_t count, int64_t least);

}  // namespace lockstep::comm
