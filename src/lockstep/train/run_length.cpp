#include "lockstep/train/run_length.h"

#include <algorithm>

namespace lockstep::train {
namespace {

constexpr int64_t kSteps = 500;
constexpr int64_t kLeastSteps = 250;
constexpr int64_t kLeastEpochs = 6;
constexpr int64_t kMostEpochs = 30;
constexpr int64_t kValidations = 5;
constexpr int64_t kPatientSteps = 60;

int64_t parts_of(int64_t steps, int64_t part) { return (steps + part - 1) / part; }

}  // namespace

int64_t default_epochs(int64_t steps_per_epoch) {
  return std::max(std::clamp(parts_of(kSteps, steps_per_epoch), kLeastEpochs, kMostEpochs), parts_of(kLeastSteps, steps_per_epoch));
}

int64_t default_patience(int64_t steps_between_validations) { return std::max(kValidations, parts_of(kPatientSteps, steps_between_validations)); }

}  // namespace lockstep::train
