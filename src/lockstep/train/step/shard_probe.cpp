#include "lockstep/train/step/shard_probe.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <ATen/Functions.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/train/step/learning.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"

namespace lockstep::train {
namespace {

// Reads back the results, so it waits for the device.
void wait_for(std::vector<ShardResult> results, int64_t pieces, const std::vector<BatchNormInfo>& norms) {
  const std::unique_ptr<comm::Communicator> alone = comm::make_communicator();
  reduce_results(results, static_cast<int64_t>(results.size()), pieces, norms, *alone);
}

}  // namespace

data::Shard made_up_shard(const Plan& plan, int64_t samples, int64_t steps) {
  const device::RandomScope random(at::kCPU, 0);
  const bool sequences = plan.data.format.kind == data::SampleKind::sequence;
  data::Shard shard{.count = samples};
  const std::vector<int64_t> labels = sequences && plan.network.input.labels_time_steps
                                          ? std::vector<int64_t>{samples, steps}
                                          : std::vector<int64_t>{samples};
  shard.target = at::randint(plan.network.input.classes, labels, at::kLong);
  if (sequences) {
    shard.images = at::randn({samples, plan.data.format.channels, steps});
    shard.lengths = at::full({samples}, steps, at::kLong);
  } else {
    shard.images = at::randint(
        256, {samples, plan.data.format.channels, plan.data.format.height, plan.data.format.width},
        at::kByte);
  }
  return shard;
}

ShardProbe::ShardProbe(const nn::Network& network, const Plan& plan, FrozenSamples frozen_samples)
    : ShardProbe(network, plan, frozen_samples, trainable_instance(network, plan.network, plan.step.seed)) {}

ShardProbe::ShardProbe(const nn::Network& network, const Plan& plan, FrozenSamples frozen_samples,
                       const nn::Instance& prototype)
    : network_(network),
      plan_(plan),
      frozen_samples_(frozen_samples),
      learnables_(learnables_of(prototype)),
      weights_(prototype, number_type(plan.step.precision),
               open_device(plan.machine.device, plan.machine.gpu)),
      norms_(probe_batch_norms(prototype, plan.network.input)) {}

std::unique_ptr<ShardRunner> ShardProbe::make_runner() const {
  const nn::Instance instance = trainable_instance(network_, plan_.network, plan_.step.seed);
  weights_.alias(instance);
  ShardRunnerOptions options = shard_runner_options(plan_);
  if (frozen_samples_ == FrozenSamples::all) options.frozen.group = 0;
  return std::make_unique<ShardRunner>(instance, weights_, norms_, options);
}

ShardResult ShardProbe::train(ShardRunner& runner, const data::Shard& shard) const {
  const ShardResult result = runner.train(shard, std::max<int64_t>(1, target_count(shard)), /*step=*/0);
  wait_for({result}, plan_.step.accumulate, norms_);
  return result;
}

void ShardProbe::train_together(ShardRunner& runner, const data::Shard& joined, int64_t shards) const {
  wait_for(runner.train_together({joined, shards}, joined.count, /*step=*/0), plan_.step.accumulate, norms_);
}

void ShardProbe::evaluate(ShardRunner& runner, EvaluationBatches& batches,
                          std::span<const data::Shard> shards) const {
  std::vector<ShardResult> results;
  batches.for_each(shards, [&](const data::Shard& batch, int64_t count) {
    if (count > 1) {
      std::ranges::move(runner.evaluate_together(batch, count), std::back_inserter(results));
    } else {
      results.push_back(runner.evaluate(batch));
    }
  });
  wait_for(std::move(results), 1, {});
}

}  // namespace lockstep::train
