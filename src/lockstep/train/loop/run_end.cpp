#include "lockstep/train/loop/run_end.h"

#include <algorithm>
#include <limits>

#include "lockstep/base/seconds.h"

namespace lockstep::train {

RunEnd::RunEnd(const TrainingSetup& setup)
    : setup_(setup),
      last_step_(setup.plan.length.total_steps > 0 ? setup.plan.length.total_steps
                                                   : std::numeric_limits<int64_t>::max()) {}

void RunEnd::start_clock(double seconds_before) {
  started_ = std::chrono::steady_clock::now();
  seconds_before_ = seconds_before;
}

double RunEnd::seconds() const { return seconds_before_ + seconds_since(started_); }

void RunEnd::end_with(EndReason reason) {
  const std::lock_guard lock(reason_mutex_);
  if (!ended_ || reason == EndReason::stopped) reason_ = reason;
  ended_ = true;
}

void RunEnd::pause() {
  const std::lock_guard lock(reason_mutex_);
  pauses_ = ended_ = true;
}

void RunEnd::end_if_time_is_over() {
  const double most = setup_.plan.length.max_time;
  if (most > 0 && seconds() >= most) end_with(EndReason::max_time);
}

NextMove RunEnd::agree() {
  constexpr int kUpdate = 0, kUpdateAndSave = 1, kComputeAgain = 2, kEnd = 3;
  const std::lock_guard lock(reason_mutex_);
  // The request may have come after the last look at it. Its answer says that the weights are written.
  if (pauses_ && setup_.wishes != nullptr && setup_.wishes->finish)
    reason_ = std::max(reason_, EndReason::request);
  const int own = ended_              ? kEnd + static_cast<int>(reason_)
                  : out_of_memory_    ? kComputeAgain
                  : checkpoint_asked_ ? kUpdateAndSave
                                      : kUpdate;
  const auto agreed = static_cast<int>(setup_.comm.all_reduce(own, comm::Reduction::max));
  computes_again_ = agreed == kComputeAgain;
  out_of_memory_ = false;
  if (agreed == kUpdateAndSave) {
    checkpoint_asked_ = false;
    return NextMove::update_and_save;
  }
  if (agreed < kEnd) return computes_again_ ? NextMove::compute_again : NextMove::update;
  reason_ = static_cast<EndReason>(agreed - kEnd);
  // What ends a run by itself ends it again after a resume.
  if (pauses_ && reason_ < EndReason::observer) reason_ = EndReason::stopped;
  ended_ = agreed_to_end_ = true;
  return NextMove::end;
}

bool RunEnd::is_end(int64_t step) const {
  const int64_t most = setup_.plan.length.max_steps;
  return is_last(step) && (!setup_.more_passes || (most > 0 && step >= most));
}

}  // namespace lockstep::train
