// Runs shards of made-up samples as training would, to measure their time and memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/evaluation_batches.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// `samples` samples of the plan's shape, with random values and classes. steps: time steps of sequences.
data::Shard made_up_shard(const Plan& plan, int64_t samples, int64_t steps = 0);

/// How many samples go through frozen layers at once: as many as in training, or all of a shard, so that each
/// sample takes its own memory there.
enum class FrozenSamples { as_in_training, all };

/// New weights of a run's network, and runners that compute shards with them. Reads the plan's input, device,
/// precision and frozen_layers.
class ShardProbe {
 public:
  ShardProbe(const nn::Network& network, const Plan& plan,
             FrozenSamples frozen_samples = FrozenSamples::as_in_training);

  SharedWeights& weights() { return weights_; }
  const std::vector<std::string>& learnables() const { return learnables_; }

  /// A runner for the calling thread. Any thread.
  std::unique_ptr<ShardRunner> make_runner() const;

  /// Forward and backward. Returns when the device is done.
  ShardResult train(ShardRunner& runner, const data::Shard& shard) const;
  /// The same for several shards of equal size at once, if ShardRunner::most_together allows it.
  void train_together(ShardRunner& runner, const data::Shard& joined, int64_t shards) const;
  /// A worker's shards of a mini-batch as in a validation, after ShardRunner::begin_evaluation. `batches` is
  /// the runner's.
  void evaluate(ShardRunner& runner, EvaluationBatches& batches, std::span<const data::Shard> shards) const;

 private:
  ShardProbe(const nn::Network& network, const Plan& plan, FrozenSamples frozen_samples,
             const nn::Instance& prototype);

  const nn::Network& network_;
  const Plan& plan_;
  const FrozenSamples frozen_samples_;
  std::vector<std::string> learnables_;
  SharedWeights weights_;
  std::vector<BatchNormInfo> norms_;
};

}  // namespace lockstep::train
