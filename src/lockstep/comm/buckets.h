// How a vector that ranks exchange is cut, so that its parts can go while the rest is still being made.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Parts of [0, count), the last first, for backward makes the gradients of the last layers first. They begin at some of `starts` (ascending, from 0) and
/// are large enough that one costs little more than its share of the whole. One part for a group of one, where nothing is sent.
std::vector<Range> exchange_buckets(const Communicator& comm, const std::vector<int64_t>& starts, int64_t count);

}  // namespace lockstep::comm
