#include "lockstep/train/step/loss_scale.h"

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr double kBackoff = 0.5;
constexpr double kGrowth = 2;
constexpr int64_t kGrowthInterval = 2000;  // steps
constexpr double kMost = 0x1p127;          // the last that float32 holds
constexpr double kLeast = 0x1p-24;  // with less, a gradient that still overflows is not the factor's fault

}  // namespace

LossScale next(LossScale scale, bool skipped, int64_t step) {
  if (skipped) {
    if (scale.factor <= kLeast) {
      throw Error(
          ErrorCode::corrupt_data,
          "the gradients of step " + std::to_string(step) +
              " are not finite, however small the loss is scaled",
          "try --precision bf16-mixed (in a custom loop Precision::bf16_mixed), or a smaller learning rate");
    }
    return {scale.factor * kBackoff, 0, scale.skipped + 1};
  }
  if (++scale.steps < kGrowthInterval) return scale;
  return {scale.factor < kMost ? scale.factor * kGrowth : scale.factor, 0, scale.skipped};
}

}  // namespace lockstep::train
