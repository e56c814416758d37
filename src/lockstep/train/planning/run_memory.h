// The memory that a run takes, for those who train several in one process.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// Bytes.
struct RunMemory {
  double own = 0;  ///< weights, optimizer and a step; images that no other run shares; on each of its GPUs
                   ///< also images that may be resident there
  std::map<std::string, double> images{};  ///< in main memory, by the keys of ImageShare::kept_sets
  std::map<int64_t, double> gpus{};  ///< on which it trains, with what runs may take of the memory that is
                                     ///< free there now; empty: on the CPU
};

/// Estimated as for --mini-batch-size auto: in forward and backward passes of two sizes of shard. Opens the
/// data; throws what fit throws for them and for options. The same whatever other runs use now, but for
/// `gpus`.
RunMemory memory_of_run(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
