#include "lockstep/train/update/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::train {

int64_t Schedule::epoch_of(int64_t step) const {
  return first_epoch + (steps_per_epoch == 0 ? 0 : (step - first_step) / steps_per_epoch);
}

double Schedule::at(int64_t step) const {
  if (test.steps > 0) return test.rate_at(step);
  double rate = learning_rate;
  switch (kind) {
    case ScheduleKind::constant:
      break;
    case ScheduleKind::piecewise: {
      const int64_t drops = epoch_of(step) / drop_period;
      rate *= std::pow(drop_factor, static_cast<double>(drops));
      break;
    }
    case ScheduleKind::cosine: {
      const double share = static_cast<double>(std::min(step, total_steps)) /
                           static_cast<double>(std::max<int64_t>(1, total_steps));
      rate *= 0.5 * (1 + std::cos(std::numbers::pi * share));
      break;
    }
  }
  if (step < warmup_steps) rate *= static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  return rate;
}

Schedule schedule_of(const Plan& plan, double learning_rate) {
  const UpdatePlan& update = plan.update;
  const LengthPlan& length = plan.length;
  return {.kind = update.lr_schedule,
          .learning_rate = learning_rate,
          .drop_factor = update.lr_drop_factor,
          .drop_period = update.lr_drop_period,
          .steps_per_epoch = length.steps_per_epoch,
          .total_steps = length.schedule_steps,
          .first_step = length.first_step,
          .first_epoch = length.first_epoch,
          .warmup_steps = update.warmup_steps};
}

}  // namespace lockstep::train
