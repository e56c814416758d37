// Sees a training loss that explodes or stands still, from the losses of the steps alone. They are folded in
// the shard tree, so what is seen depends neither on the number of workers nor on stops and resumes.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/train/options/limits.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The part of a run's state that the watch needs.
struct WatchedLoss {
  double first = 0;        ///< the loss before any weight changed
  double largest = 0;      ///< of all steps
  double earlier_sum = 0;  ///< of the steps of the first half of a window
  double sum = 0;          ///< of those of its second half
  int64_t windows = 0;     ///< that are over, but for first ones in which the loss only came down to guessing
  int64_t warnings = 0;    ///< that the user was given; one is enough
};

enum class LossVerdict { good, starts_high, exploded, stands_still };

class LossWatch {
 public:
  /// learning_rate: of the run as it stands.
  LossWatch(const Plan& plan, double learning_rate);

  /// After step `step` (from 1) with this loss. A window is an epoch, but at least 40 and at most 100 steps;
  /// the second half of each is judged. Standing still is judged in the first, or where the loss still falls
  /// towards guessing there, in the first one after. The first loss of all starts high if the inputs of the
  /// network are probably not normalised.
  LossVerdict judge(WatchedLoss& watched, int64_t step, double loss) const;

  /// What the user is told: what was seen, and what to try. `loss`: of the last step.
  std::string text(const WatchedLoss& watched, LossVerdict verdict, double loss) const;

  /// Whether a lower learning rate is likely to help: the loss has risen before.
  bool is_the_rates_fault(const WatchedLoss& watched, LossVerdict verdict) const;

 private:
  const Plan& plan_;
  double learning_rate_;
  int64_t window_;
  double guessing_;     // loss of the best answer for all samples
  double equal_guess_;  // of equal probabilities, as random weights give; not less than guessing_
};

}  // namespace lockstep::train
