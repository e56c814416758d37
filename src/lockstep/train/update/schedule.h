// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/update/rate_test.h"

namespace lockstep::train {

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double learning_rate = 0.01;  ///< at step 0, after the warm-up
  double drop_factor = 0.1;     ///< piecewise
  int64_t drop_period = 10;     ///< piecewise, epochs
  int64_t steps_per_epoch = 1;  ///< 0: not known; there is only one epoch
  int64_t total_steps = 1;      ///< cosine, half a period: reaches 0 there (Loshchilov and Hutter 2016)
  int64_t first_step = 0;       ///< piecewise: the first step of epoch `first_epoch`
  int64_t first_epoch = 0;
  int64_t warmup_steps = 0;  ///< before this step the rate is multiplied by (step + 1) / warmup_steps
  RateTest test = {};        ///< with steps: the rates are those of the test, and nothing else counts

  /// The learning rate of step `step`, counted from 0 over the whole run.
  double at(int64_t step) const;

  /// The epoch of step `step`, also counted from 0.
  int64_t epoch_of(int64_t step) const;
};

/// The plan's schedule, with this learning rate in place of the plan's.
Schedule schedule_of(const Plan& plan, double learning_rate);

}  // namespace lockstep::train
