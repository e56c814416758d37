#include "lockstep/train/run_length.h"

#include <algorithm>

#include "lockstep/base/share.h"

namespace lockstep::train {
namespace {

constexpr int64_t kSteps = 500;
constexpr int64_t kLeastSteps = 250;
constexpr int64_t kLeastEpochs = 6;
constexpr int64_t kMostEpochs = 30;
constexpr int64_t kValidations = 5;
constexpr int64_t kPatientSteps = 60;

}  // namespace

int64_t default_epochs(int64_t steps_per_epoch) {
  return std::max(std::clamp(divided_up(kSteps, steps_per_epoch), kLeastEpochs, kMostEpochs), divided_up(kLeastSteps, steps_per_epoch));
}

int64_t default_patience(int64_t steps_between_validations) { return std::max(kValidations, divided_up(kPatientSteps, steps_between_validations)); }

}  // namespace lockstep::train
