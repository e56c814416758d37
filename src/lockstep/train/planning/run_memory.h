// The memory that a run takes, for those who train several in one process.
#pragma once

#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// Bytes of weights, optimizer and a step, estimated as for --mini-batch-size auto: in forward and backward
/// passes of two sizes of shard. Without the images, which runs of one process share. Opens the data; throws
/// what fit throws for them and for options.
double memory_of_run(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
