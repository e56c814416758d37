// The memory that a run takes, for those who train several in one process.
#pragma once

#include <cstdint>

#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// Bytes.
struct RunMemory {
  double own = 0;         ///< weights, optimizer and a step; on a GPU also images that are resident there
  double images = 0;      ///< in main memory, that it adds to those that are in use in request.images
  int64_t gpu = -1;       ///< whose memory `own` is; -1: the machine's
  double gpu_budget = 0;  ///< what runs may take of the GPU's memory that is free now
};

/// Estimated as for --mini-batch-size auto: in forward and backward passes of two sizes of shard. Opens the
/// data; throws what fit throws for them and for options.
RunMemory memory_of_run(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
