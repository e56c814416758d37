#include "lockstep/train/loop/run_reports.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/text.h"
#include "lockstep/device/memory.h"

namespace lockstep::train {
namespace {

// The first ten steps, then about fifty an epoch, and every tenth if the length of an epoch is not known (0).
// A pure function of the step, so that the logs of two runs can be compared.
bool is_logged_step(int64_t step, int64_t steps_per_epoch) {
  return step <= 10 || step % (steps_per_epoch == 0 ? 10 : std::max<int64_t>(1, steps_per_epoch / 50)) == 0;
}

}  // namespace

void LossRange::add(double loss, int64_t step) {
  const bool first = largest_step == 0;
  if (first || std::isnan(loss) || loss > largest) {
    if (first || !std::isnan(largest)) {
      largest = loss;
      largest_step = step;
    }
  }
  if (first || loss < least || std::isnan(least)) {
    least = loss;
    least_step = step;
  }
}

RunReports::RunReports(const TrainingSetup& setup, const RunState& state, const Schedule& schedule,
                       RunEnd& end)
    : setup_(setup), state_(state), schedule_(schedule), end_(end), timed_(setup.timed) {}

void RunReports::say(record::Event event, Log log) {
  event.step = state_.step;
  event.epoch = epochs_begun();
  const bool refused = setup_.observer && setup_.observer(event) == record::Control::stop;
  if (refused || setup_.enough.stop_requested()) end_.end_with(EndReason::observer);
  if (log == Log::write && setup_.say) setup_.say(std::move(event));
}

void RunReports::warn_after_step(const std::string& text) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(text);
}

void RunReports::say_warnings() {
  std::vector<std::string> warnings;
  {
    const std::lock_guard lock(mutex_);
    warnings.swap(warnings_);
  }
  for (const std::string& text : warnings) message(text, "warning");
}

void RunReports::smaller_pieces() {
  const std::string pieces = std::to_string(state_.pieces), step = std::to_string(state_.step + 1);
  say(record::Message{.text = "memory ran out in step " + step +
                              ", so it is computed again, and from here on each shard in " + pieces +
                              " pieces, as with --accumulate " + pieces,
                      .level = "warning",
                      .pieces = state_.pieces});
}

void RunReports::skipped_step(double factor) {
  const auto shown = [](double number) {
    return number >= 1 ? with_commas(static_cast<int64_t>(number)) : shortest(number);
  };
  say(record::Message{.text = "step " + std::to_string(state_.step) +
                              " was skipped: its gradients are not finite with a loss scaled by " +
                              shown(factor) + "; from here on by " + shown(state_.loss_scale),
                      .skipped_steps = state_.skipped_steps,
                      .loss_scale = state_.loss_scale});
}

// NaN where the number of steps is not known. rate: images per second of the last steps.
double RunReports::seconds_left(double rate) const {
  const Plan& plan = setup_.plan;
  if (plan.length.total_steps == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(plan.length.total_steps - state_.step) *
         static_cast<double>(plan.step.mini_batch_size) / (timed_.seconds > 0 ? images_per_second() : rate);
}

void RunReports::step(const StepTimes& times, const Score& score, const std::vector<int64_t>& shard_workers) {
  if (timed_.steps++ == 0) {
    say(record::FirstStep{.seconds = now_seconds() - setup_.began});
  } else {
    timed_.seconds += times.whole;
    timed_.images += score.count;
  }
  unlogged_seconds_ += times.whole;
  unlogged_images_ += score.count;
  unlogged_losses_.add(score.loss, state_.step);
  const bool logs = is_logged();
  if (logs || setup_.observer) {
    const double rate = static_cast<double>(unlogged_images_) / unlogged_seconds_;
    const record::Step values{.loss = score.loss,
                              .accuracy = score.accuracy,
                              .least_loss = unlogged_losses_.least,
                              .least_loss_step = unlogged_losses_.least_step,
                              .largest_loss = unlogged_losses_.largest,
                              .largest_loss_step = unlogged_losses_.largest_step,
                              .learning_rate = schedule_.at(state_.step - 1),
                              .samples = score.count,
                              .images_per_second = rate,
                              .seconds_left = seconds_left(rate),
                              .queue_seconds = times.queue,
                              .forward_seconds = times.forward,
                              .backward_seconds = times.backward,
                              .exchange_seconds = times.exchange,
                              .hidden_exchange_seconds = times.hidden_exchange,
                              .update_seconds = times.update,
                              .checkpoint_seconds = checkpoint_seconds_,
                              .shard_workers = shard_workers,
                              .worker_seconds = times.of_workers,
                              .page_faults = device::page_faults() - page_faults_};
    say(record::event_of(values), logs ? Log::write : Log::skip);
  }
  if (logs) {
    unlogged_seconds_ = checkpoint_seconds_ = 0;
    unlogged_images_ = 0;
    unlogged_losses_ = {};
  }
  if (setup_.wishes != nullptr && setup_.wishes->checkpoint.exchange(false)) end_.ask_for_checkpoint();
  end_if_asked();
  page_faults_ = device::page_faults();
}

void RunReports::tested_step() {
  if (timed_.steps++ == 0) say(record::FirstStep{.seconds = now_seconds() - setup_.began});
  end_if_asked();
}

void RunReports::end_if_asked() {
  if (setup_.wishes != nullptr) setup_.wishes->check();
  if (setup_.wishes != nullptr && setup_.wishes->finish) end_.end_with(EndReason::request);
  end_.end_if_time_is_over();
  if (setup_.enough.stop_requested()) end_.end_with(EndReason::observer);
}

// As often in the log as steps are, unless all averages are wanted there.
void RunReports::average(double seconds, const Score& score) {
  const int64_t frequency = setup_.plan.exchange.averaging_frequency;
  const int64_t each = setup_.plan.length.steps_per_epoch;
  const bool logs =
      setup_.plan.record.report_averages ||
      is_logged_step(state_.step / frequency, each == 0 ? 0 : std::max<int64_t>(1, each / frequency));
  if (logs || setup_.observer)
    say(record::event_of(record::Average{.score = score.loss, .seconds = seconds}),
        logs ? Log::write : Log::skip);
}

bool RunReports::is_logged() const {
  const int64_t asked = setup_.wishes == nullptr ? 0 : setup_.wishes->log_every.load();
  return is_logged_step(state_.step, setup_.plan.length.steps_per_epoch) ||
         (asked > 0 && state_.step % asked == 0);
}

double RunReports::images_per_second() const {
  return timed_.seconds > 0 ? static_cast<double>(timed_.images) / timed_.seconds : 0;
}

int64_t RunReports::epochs_begun() const {
  const LengthPlan& length = setup_.plan.length;
  return state_.step == length.first_step ? length.first_epoch : schedule_.epoch_of(state_.step - 1) + 1;
}

}  // namespace lockstep::train
