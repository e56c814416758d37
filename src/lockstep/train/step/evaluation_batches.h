// Several shards evaluated as one batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {

/// Which shards of a worker go through the network as one batch. The bits are those of one after the other,
/// for finite numbers: with bf16 on AMX an infinity or a NaN may reach the image before it
/// (kernels/internal/tile_convolution.h).
class EvaluationBatches {
 public:
  /// For this runner. Of the plan only network and step are read; device: as in Placement.
  EvaluationBatches(const ShardRunner& runner, const Plan& plan, const std::string& device);

  /// Shards of so many samples that are one batch at most.
  int64_t most_shards(int64_t samples) const { return std::max<int64_t>(1, most_samples_ / samples); }

  /// `batch` is a shard, or several neighbouring ones (data::joined): only where all layers were seen to keep
  /// shards of this size apart.
  using Work = std::function<void(const data::Shard& batch, int64_t shards)>;
  /// Calls `work` for all of a worker's shards of a mini-batch, in order.
  void for_each(std::span<const data::Shard> shards, const Work& work);

 private:
  size_t next(std::span<const data::Shard> shards) const;

  int64_t most_samples_;                // of a batch; 0: each shard is one
  std::map<int64_t, bool> kept_apart_;  // by the samples of a shard that was alone
};

}  // namespace lockstep::train
