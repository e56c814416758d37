// Runs a trained network on a dataset, with all workers.
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

/// The ranks that compute together, and which of them get all results.
struct Together {
  comm::Communicator& comm;
  Ranks ranks = {};      ///< for the placement
  bool for_all = false;  ///< all ranks get them; otherwise rank 0
  std::stop_token stop = {};
  SamplesDone done = {};

  bool gets_all() const { return for_all || comm.rank() == 0; }
};

/// The ranks of a group, for the placement.
///   here  this rank's place among those of its machine
inline Ranks ranks_of(const comm::Communicator& comm, int64_t here) {
  return {true, comm.size(), comm.way(), here};
}

/// Called by several threads at once, each with its own runner in evaluation mode.
///   shard  a shard, or several neighbouring ones (data::joined)
///   first  the index of the shard's first sample in the dataset
using ShardWork = std::function<void(ShardRunner& runner, const data::Shard& shard, int64_t first)>;

/// Calls `work` for all shards of the dataset; the shards are the same for any number of workers, and each
/// rank's workers have their part of them. Where layers keep shards apart, a worker computes several at once
/// (EvaluationBatches). Options as for predict. Throws cancelled after a stop, and invalid_option if a rank
/// has other samples or another model than rank 0.
///   feature_steps  the number of first layers that ShardRunner::features runs
void for_each_shard(Model model, const data::Dataset& dataset, const Options& options, size_t feature_steps,
                    const Together& together, const ShardWork& work);

}  // namespace lockstep::train
