// Several shards evaluated as one batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// Which shards of a worker go through the network as one batch. The bits are those of one after the other,
/// for finite numbers: with bf16 on AMX an infinity or a NaN may reach the image before it
/// (kernels/internal/tile_convolution.h).
class EvaluationBatches {
 public:
  /// most_samples: of a batch (ShardRunner::most_evaluated); 0: each shard is one.
  explicit EvaluationBatches(int64_t most_samples) : most_samples_(most_samples) {}

  /// `batch` is a shard, or several neighbouring ones (data::joined): only where all layers were seen to keep
  /// shards of this size apart.
  using Work = std::function<void(const data::Shard& batch, int64_t shards)>;
  /// Calls `work` for all of a worker's shards of a mini-batch, in order.
  void for_each(std::span<const data::Shard> shards, const Work& work);

 private:
  size_t next(std::span<const data::Shard> shards) const;

  int64_t most_samples_;
  std::map<int64_t, bool> kept_apart_;  // by the samples of a shard that was alone
};

}  // namespace lockstep::train
