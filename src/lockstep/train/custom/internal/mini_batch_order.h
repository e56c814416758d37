// What decides the mini-batches of a custom loop, so that a resume has the same.
#pragma once

#include "lockstep/base/json.h"
#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// A name and a value of each.
Json order_of(const data::QueueOptions& options);

/// Throws invalid_option that names the first value which is not the one of `before`.
void check_order(const Json& now, const Json& before);

}  // namespace lockstep::train
