#include "lockstep/train/planning/resolve.h"

namespace lockstep::train {
namespace {

// Recurrent networks, which have no batch norm, barely move at the rate that images are given. A new head's
// factor is 10: so it learns at the usual rate, and layers that are trained already at a tenth.
double default_learning_rate(const Options& options, data::SampleKind samples) {
  const double share = options.head == Head::new_ ? 0.1 : 1;
  if (options.optimizer != OptimizerKind::sgdm) return share * 0.001;
  return share * (samples == data::SampleKind::sequence ? 0.1 : 0.01);
}

}  // namespace

UpdatePlan resolve_update(const Options& options, data::SampleKind samples) {
  const double momentum = options.optimizer == OptimizerKind::sgdm ? 0.9 : 0.0;
  const double decay = options.optimizer == OptimizerKind::adamw ? 0.01 : 1e-4;
  return {.optimizer = options.optimizer,
          .momentum = options.momentum >= 0 ? options.momentum : momentum,
          .nesterov = options.nesterov,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .alpha = options.alpha,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay >= 0 ? options.weight_decay : decay,
          .gradient_clip = options.gradient_clip,
          .learning_rate =
              options.learning_rate > 0 ? options.learning_rate : default_learning_rate(options, samples),
          .lr_schedule = options.lr_schedule,
          .lr_drop_factor = options.lr_drop_factor,
          .lr_drop_period = options.lr_drop_period,
          .warmup_steps = options.warmup_steps};
}

ExchangePlan resolve_exchange(const Options& options) {
  return {.kind = options.exchange,
          .overlap = options.overlap && options.exchange == ExchangeKind::tree &&
                     options.out_of_memory == OutOfMemory::error,
          .powersgd_rank = options.powersgd_rank,
          .averaging_frequency = options.averaging_frequency,
          .averaging_warmup_steps = options.averaging_warmup_steps,
          .average_updaters = options.average_updaters,
          .outer_optimizer = options.outer_optimizer,
          .outer_learning_rate = options.outer_learning_rate,
          .outer_momentum = options.outer_momentum};
}

}  // namespace lockstep::train
