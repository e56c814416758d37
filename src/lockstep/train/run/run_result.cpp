#include "lockstep/train/run/run_result.h"

#include <limits>

#include "lockstep/base/describe.h"
#include "lockstep/base/seconds.h"

namespace lockstep::train {
namespace {

constexpr double kNoResult = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Result result_at(const RunState& state, EndReason reason, const record::RunPaths& paths) {
  const bool validated = state.validation_accuracy >= 0;
  return {.reason = reason,
          .accuracy = validated ? state.validation_accuracy : kNoResult,
          .best_accuracy = state.best_accuracy >= 0 ? state.best_accuracy : kNoResult,
          .test_accuracy = state.test_accuracy >= 0 ? state.test_accuracy : kNoResult,
          .loss = validated ? state.validation_loss : kNoResult,
          .steps = state.step,
          .seconds = state.seconds,
          .output = paths.folder,
          .weights = paths.weights()};
}

record::End end_of(const RunState& state, const std::string& reason, const StepPlan& step,
                   const record::RunPaths& paths) {
  record::End end{.reason = reason, .seconds = state.seconds, .best_step = state.best_step};
  if (state.validation_accuracy >= 0) {
    end.accuracy = state.validation_accuracy;
    end.loss = state.validation_loss;
    if (state.best_accuracy >= 0) end.best_accuracy = state.best_accuracy;
  }
  if (state.test_accuracy >= 0) {
    end.test_accuracy = state.test_accuracy;
    end.test_loss = state.test_loss;
  }
  if (step.precision == Precision::fp16_mixed) {
    end.skipped_steps = state.skipped_steps;
    end.loss_scale = state.loss_scale;
  }
  if (reason != describe_detail::as_text(EndReason::stopped)) end.weights_path = paths.weights().string();
  return end;
}

record::Result record_of(const RunState& state, const record::End& end) {
  record::Result result{.reason = end.reason,
                        .steps = state.step,
                        .seconds = state.seconds,
                        .images_per_second = end.images_per_second,
                        .accuracy = end.accuracy,
                        .loss = end.loss,
                        .best_accuracy = end.best_accuracy,
                        .test_accuracy = end.test_accuracy,
                        .test_loss = end.test_loss,
                        .weights = end.weights_path.value_or(""),
                        .ended = now_seconds()};
  if (end.best_accuracy) result.best_step = state.best_step;
  return result;
}

int64_t epoch_of_step(const LengthPlan& length, int64_t step) {
  if (step <= length.first_step) return length.first_epoch;
  const int64_t whole =
      length.steps_per_epoch == 0 ? 0 : (step - 1 - length.first_step) / length.steps_per_epoch;
  return length.first_epoch + 1 + whole;
}

record::Status status_at(const RunState& state, int64_t attempt, const LengthPlan& length) {
  record::Status status{.attempt = attempt,
                        .step = state.step,
                        .epoch = epoch_of_step(length, state.step),
                        .total_steps = length.total_steps};
  if (state.best_accuracy < 0) return status;
  status.best_accuracy = state.best_accuracy;
  status.best_step = state.best_step;
  return status;
}

std::string reason_of_end(EndReason reason, const Wishes& wishes, bool console) {
  const bool asked = reason == EndReason::stopped || reason == EndReason::request;
  if (!asked) return describe_detail::as_text(reason);
  if (const std::string from = wishes.asked_by(); !from.empty()) return from + " asked for it";
  return console ? "Ctrl-C, or another signal" : "its program asked for it";
}

}  // namespace lockstep::train
