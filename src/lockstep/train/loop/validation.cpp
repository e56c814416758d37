// Scores of held-out and test data: when they are due, and what follows from them.
#include <chrono>

#include "lockstep/base/seconds.h"
#include "lockstep/train/loop/training.h"

namespace lockstep::train {

bool Training::validation_is_due(int64_t step) const {
  return setup_.validation != nullptr && step > 0 &&
         (update_->is_due(step, setup_.plan.length.validate_every) || end_.is_end(step));
}

// At --max-time, between two validations or before the first.
bool Training::ends_unvalidated(int64_t step) const {
  return setup_.validation != nullptr && end_.reason() == EndReason::max_time && !tests_rates() && step > 0 &&
         state_.validated_step < step;
}

bool Training::patience_is_over() const {
  const int64_t patience = setup_.plan.length.patience;
  return patience > 0 && state_.validations_since_best >= patience;
}

// Whether it is the best. A run that --max-time ended and that goes on comes to the same end as one without a
// limit, so the validation at its end decides nothing. If it is the only one, its answers are kept until
// one decides.
bool Training::note_score(const Score& score, ValidationUse use) {
  if (use == ValidationUse::shown) {
    state_.validation_accuracy = score.accuracy;
    state_.validation_loss = score.loss;
    if (state_.best_accuracy < 0) saver_.keep(score.confusion);
    return false;
  }
  const bool best = note_validation(state_, score, setup_.plan.length.patience_from);
  saver_.note_validation(best);
  if (best) saver_.keep(score.confusion);
  return best;
}

void Training::validate(Worker& worker, ValidationUse use) {
  worker.runner.check_aliases();
  if (worker.is_first()) update_->check_aliases();
  const auto start = std::chrono::steady_clock::now();
  const Score result = scoring_.score(worker, *setup_.validation);
  if (!worker.is_first()) return;
  if (result.count < setup_.validation->size())
    return end_.end_with(EndReason::stopped);  // a resume makes the validation again
  const double seconds = seconds_since(start);
  const bool best = note_score(result, use);
  reports_.say(record::Validation{.loss = result.loss,
                                  .accuracy = result.accuracy,
                                  .samples = result.count,
                                  .best = best,
                                  .images_per_second = static_cast<double>(result.count) / seconds});
  if (patience_is_over()) end_.end_with(EndReason::patience);
}

void Training::test(Worker& worker) {
  const Score result = scoring_.score(worker, *setup_.test);
  if (!worker.is_first()) return;
  if (result.count < setup_.test->size()) return end_.end_with(EndReason::stopped);
  test_score_ = result;
}

}  // namespace lockstep::train
