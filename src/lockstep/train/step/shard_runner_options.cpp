#include "lockstep/train/step/shard_runner_options.h"

#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"

namespace lockstep::train {

ShardRunnerOptions shard_runner_options(const Plan& plan) {
  return {.format = {number_type(plan.step.precision), open_device(plan.machine.device, plan.machine.gpu),
                     plan.data.mean, plan.data.deviation},
          .precision = plan.step.precision,
          .accumulate = plan.step.accumulate,
          .seed = plan.step.seed,
          .kernels = plan.step.kernels,
          .label_smoothing = plan.update.label_smoothing,
          .detect_anomaly = plan.record.detect_anomaly,
          .padded_left = plan.data.format.padding == data::PaddingSide::left,
          .module_together = plan.network.module_together,
          .frozen = plan.network.frozen_layers == 0
                        ? FrozenLayers()
                        : FrozenLayers{static_cast<size_t>(plan.network.frozen_layers),
                                       plan.data.streamed || plan.data.augment.any() ? 0 : kFeaturesGroup}};
}

}  // namespace lockstep::train
