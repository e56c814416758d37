#include "lockstep/train/run/run_result.h"

#include <limits>

#include "lockstep/base/describe.h"

namespace lockstep::train {
namespace {

constexpr double kNoResult = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Result result_at(const RunState& state, EndReason reason, const record::RunPaths& paths) {
  const bool validated = state.validation_accuracy >= 0;
  return {.reason = reason,
          .accuracy = validated ? state.validation_accuracy : kNoResult,
          .best_accuracy = validated ? state.best_accuracy : kNoResult,
          .test_accuracy = state.test_accuracy >= 0 ? state.test_accuracy : kNoResult,
          .loss = validated ? state.validation_loss : kNoResult,
          .steps = state.step,
          .seconds = state.seconds,
          .output = paths.folder,
          .weights = paths.weights()};
}

Json end_values(const RunState& state, const std::string& reason, const StepPlan& step,
                const record::RunPaths& paths) {
  Json values{{"reason", reason}, {"seconds", state.seconds}, {"best_step", state.best_step}};
  if (state.validation_accuracy >= 0)
    values.update({{"accuracy", state.validation_accuracy},
                   {"loss", state.validation_loss},
                   {"best_accuracy", state.best_accuracy}});
  if (state.test_accuracy >= 0)
    values.update({{"test_accuracy", state.test_accuracy}, {"test_loss", state.test_loss}});
  if (step.precision == Precision::fp16_mixed)
    values.update({{"skipped_steps", state.skipped_steps}, {"loss_scale", state.loss_scale}});
  if (reason != describe_detail::as_text(EndReason::stopped))
    values["weights_path"] = paths.weights().string();
  return values;
}

}  // namespace lockstep::train
