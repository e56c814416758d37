#include "lockstep/train/run/standing.h"

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/train/options/run_length.h"

namespace lockstep::train {

bool continues_standing(const TrainingRequest& request) {
  return request.standing != nullptr && request.standing->begun();
}

void continue_count(Plan& plan, const RunState& state) {
  LengthPlan& length = plan.length;
  plan.update.may_start_again &= state.first_step == 0;  // the steps of earlier calls cannot be made again
  length.first_step = state.first_step;
  length.first_epoch = state.first_epoch;
  if (length.steps_per_epoch > 0)
    length.total_steps =
        length.first_step + total_steps(length.max_epochs, length.steps_per_epoch, length.max_steps);
  if (length.max_steps > 0)
    length.total_steps =
        length.total_steps > 0 ? std::min(length.total_steps, length.max_steps) : length.max_steps;
  length.schedule_steps = length.max_steps > 0 ? length.max_steps : length.total_steps;
  if (plan.update.lr_schedule != ScheduleKind::cosine || length.max_steps > 0 ||
      (length.first_step == 0 && length.total_steps > 0))
    return;
  throw Error(
      ErrorCode::invalid_option,
      length.first_step > 0
          ? "the learning rate has fallen to 0: its cosine schedule ended with the first fit, after " +
                counted(length.first_step, "step")
          : "the learning rate's cosine schedule needs the number of steps, which an iterator does not give",
      "set Options::max_steps to the number of steps of all fits together, or lr_schedule to constant or "
      "piecewise");
}

Standing standing_after(Training& training, const std::filesystem::path& output) {
  Standing standing{training.snapshot(), output};
  RunState& state = standing.snapshot.state;
  if (state.starts_again) {  // so does the next call
    state = {.seconds = state.seconds,
             .restarts = state.restarts,
             .starts_again = true,
             .found_rate = state.found_rate};
    return standing;
  }
  state.finished.clear();
  state.first_epoch = training.epochs_begun();
  state.first_step = state.step;
  return standing;
}

}  // namespace lockstep::train
