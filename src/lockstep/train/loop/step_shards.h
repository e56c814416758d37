// The shards of the step under way: what they gave, and which worker has each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/train/loop/training_setup.h"
#include "lockstep/train/step/shard_result.h"

namespace lockstep::train {

/// Shared by the workers of a process. Workers are counted over all ranks.
class StepShards {
 public:
  explicit StepShards(const TrainingSetup& setup);

  /// The worker that each shard is given to first.
  const std::vector<int64_t>& owners() const { return owners_; }

  /// The results of these shards, to be written by the worker that computes them. Any thread, each its own.
  std::span<ShardResult> results_of(Range shards);
  /// This worker has computed these shards. Any thread, each its own.
  void note_worker(Range shards, int64_t worker);

  /// Between steps, on the first worker of each rank: gives all ranks all results of a step with this many
  /// shards. norms, pieces: as in reduce_results().
  std::span<const ShardResult> reduce(int64_t shard_count, int64_t pieces,
                                      const std::vector<BatchNormInfo>& norms);
  /// Of the results that reduce() gave: added in the tree.
  ShardResult sum(const std::vector<BatchNormInfo>& norms) const {
    return folded(results_, shard_count_, norms);
  }
  /// Who computed the shards of the last reduce(), as far as this rank knows: the worker that owns a shard of
  /// another rank.
  const std::vector<int64_t>& computed_by() const { return computed_by_; }

 private:
  comm::Communicator& comm_;
  std::vector<int64_t> owners_;
  std::vector<ShardResult> results_;
  std::vector<int64_t> workers_;      // of the step under way
  std::vector<int64_t> computed_by_;  // of the last step
  int64_t shard_count_ = 0;           // of the last step
  at::Tensor table_;                  // memory for reduce()
};

}  // namespace lockstep::train
