// A trained network run over a dataset by all workers.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {

/// Who computes together, and who has all of it afterwards.
struct Together {
  comm::Communicator& comm;
  Ranks ranks = {};      ///< as the placement sees them
  bool for_all = false;  ///< else for rank 0
  std::stop_token stop = {};
  SamplesDone done = {};

  bool gets_all() const { return for_all || comm.rank() == 0; }
};

/// The ranks of a group as the placement sees them. here: this rank's place among those of its machine.
inline Ranks ranks_of(const comm::Communicator& comm, int64_t here) {
  return {true, comm.size(), comm.way(), here};
}

/// Called by several threads at once, each with its own runner in evaluation mode; `first` is the place of
/// the shard's first sample in the dataset.
using ShardWork = std::function<void(ShardRunner& runner, const data::Shard& shard, int64_t first)>;

/// Every shard of the dataset, the same shards for any number of workers; each rank's workers do theirs.
/// Options as for predict. feature_steps: so many first layers are what ShardRunner::features runs. Throws
/// cancelled after a stop, and where a rank has other samples or another model than rank 0.
void for_each_shard(const Model& model, const data::Dataset& dataset, const Options& options,
                    size_t feature_steps, const Together& together, const ShardWork& work);

}  // namespace lockstep::train
