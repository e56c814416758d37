// What is known of one worker of a pool.
#pragma once

#include <cstdint>

#include "lockstep/jobs/worker_info.h"

namespace lockstep::pool {

using jobs::WorkerInfo;

/// The information for a busy worker in this process.
WorkerInfo make_worker_info(int64_t index, int64_t gpu);

}  // namespace lockstep::pool
