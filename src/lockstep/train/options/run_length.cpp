#include "lockstep/train/options/run_length.h"

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/train/options/limits.h"

namespace lockstep::train {
namespace {

constexpr int64_t kSteps = 500;
constexpr int64_t kLeastSteps = 250;
constexpr int64_t kLeastEpochs = 6;
constexpr int64_t kMostOwnEpochs = 30;
constexpr int64_t kValidations = 5;
constexpr int64_t kPatientSteps = 60;

}  // namespace

int64_t default_epochs(int64_t steps_per_epoch) {
  return std::max(std::clamp(divided_up(kSteps, steps_per_epoch), kLeastEpochs, kMostOwnEpochs),
                  divided_up(kLeastSteps, steps_per_epoch));
}

int64_t total_steps(int64_t max_epochs, int64_t steps_per_epoch, int64_t max_steps) {
  const auto most = static_cast<int64_t>(kMostSteps);
  if (steps_per_epoch == 0) return 0;
  if (max_epochs <= most / steps_per_epoch) {
    const int64_t steps = max_epochs * steps_per_epoch;
    return max_steps > 0 ? std::min(max_steps, steps) : steps;
  }
  if (max_steps > 0) return max_steps;
  throw Error(
      ErrorCode::invalid_option,
      "--max-epochs " + std::to_string(max_epochs) + " of " + counted(steps_per_epoch, "step") +
          " each are more than the " + with_commas(most) + " steps that a run may have",
      "--max-epochs " + std::to_string(std::max<int64_t>(1, most / steps_per_epoch)) + ", or --max-time");
}

int64_t default_patience(int64_t steps_between_validations) {
  return std::max(kValidations, divided_up(kPatientSteps, steps_between_validations));
}

}  // namespace lockstep::train
