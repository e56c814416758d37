// The test that finds a learning rate: a few first steps with rising rates, from which the run then begins
// again with the rate that they show (Smith 2017, "Cyclical Learning Rates for Training Neural Networks",
// section 3.3). Everything is a function of the losses of these steps, which are folded in the shard tree.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// Rates from middle / 32 to middle * 32, in equal ratios.
struct RateTest {
  double middle = 0.001;
  int64_t steps = 0;  ///< 0: there is no test

  /// The rate of step `step`, counted from 0.
  double rate_at(int64_t step) const;

  /// Whether no further step is needed: all were made, or the last loss has exploded. losses: of all steps so
  /// far, the last of which may be not finite.
  bool is_over(const std::vector<double>& losses) const;

  /// A tenth of the largest rate at which the smoothed loss is nearly as low as at any. losses: as given to
  /// is_over(). Not below the smallest rate.
  double chosen(const std::vector<double>& losses) const;
};

/// The number of steps of a test in a run of this many steps; 0 for one that is too short for a test.
int64_t rate_test_steps(int64_t total_steps);

/// That of the plan.
inline RateTest rate_test_of(const UpdatePlan& plan) { return {plan.learning_rate, plan.rate_test_steps}; }

}  // namespace lockstep::train
