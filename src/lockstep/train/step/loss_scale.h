// fp16-mixed: the loss is multiplied by a factor, so that gradients of 16 bits do not become zero; the
// gradients are divided by it before the update. The rule is that of PyTorch's GradScaler
// (torch/amp/grad_scaler.py, version 2.15). The factor is a power of two, so it changes no bit of a gradient
// that neither overflows nor underflows.
#pragma once

#include <cstdint>

namespace lockstep::train {

/// The factor of the next step's loss, and the counts on which it depends.
struct LossScale {
  double factor = 65536;
  int64_t steps = 0;    ///< steps since the factor changed
  int64_t skipped = 0;  ///< steps of the whole run whose gradients were not finite
};

/// The loss scale after a step. skipped: the step was skipped, because its gradients were not finite. The
/// factor is halved after a skipped step and doubled after 2,000 other steps in a row. Throws corrupt_data if
/// no factor is small enough. `step` is counted from 1.
LossScale next(LossScale scale, bool skipped, int64_t step);

}  // namespace lockstep::train
