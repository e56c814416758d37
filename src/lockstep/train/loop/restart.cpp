// What the loss of a step decides: whether the run begins again, with another learning rate.
#include "lockstep/train/loop/restart.h"

#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/train/loop/training.h"

namespace lockstep::train {
namespace {

constexpr double kRateOfRestart = 0.1;  // of the one before

}  // namespace

Schedule schedule_of(const Plan& plan, const RunState& state) {
  const double rate = state.found_rate > 0 ? state.found_rate : plan.update.learning_rate;
  Schedule schedule = schedule_of(plan, state.restarts > 0 ? rate * kRateOfRestart : rate);
  if (state.tests_rates(plan.update)) schedule.test = rate_test_of(plan.update);
  return schedule;
}

// A loss that is not finite is an error, unless the run may begin again.
bool Training::starts_again_after(double loss) const {
  if (std::isfinite(loss)) return false;
  return tests_rates() ? state_.step > 0 : setup_.plan.update.may_start_again && state_.restarts == 0;
}

// The losses of a test are not those of the run.
void Training::note_tested(const Score& score) {
  state_.tested_losses.push_back(score.loss);
  state_.seconds = end_.seconds();
  const RateTest& test = schedule_.test;
  if (!test.is_over(state_.tested_losses)) return;
  state_.found_rate = test.chosen(state_.tested_losses);
  state_.starts_again = true;
  reports_.message("learning rate " + shortest(state_.found_rate) + ", found by " +
                       std::to_string(state_.step) + " steps with rising rates; the run begins anew",
                   "info");
}

void Training::watch_loss(const Score& score) {
  if (setup_.plan.data.streamed || setup_.more_passes) return;
  const LossVerdict verdict = loss_watch_.judge(state_.watched_loss, state_.step, score.loss);
  if (verdict == LossVerdict::good) return;
  if (verdict == LossVerdict::starts_high) {
    if (state_.restarts == 0)
      reports_.message(loss_watch_.text(state_.watched_loss, verdict, score.loss), "warning");
    return;
  }
  const bool may_start_again = setup_.plan.update.may_start_again && state_.restarts == 0;
  state_.starts_again = may_start_again && loss_watch_.is_the_rates_fault(state_.watched_loss, verdict);
  std::string text = loss_watch_.text(state_.watched_loss, verdict, score.loss);
  if (state_.starts_again)
    text += "; as the rate was not given, the run starts again once, with " +
            shortest(schedule_.learning_rate * kRateOfRestart);
  if (state_.starts_again) {
    ++state_.restarts;
    state_.seconds = end_.seconds();
  }
  if (state_.starts_again || state_.watched_loss.warnings++ == 0) reports_.message(text, "warning");
}

}  // namespace lockstep::train
