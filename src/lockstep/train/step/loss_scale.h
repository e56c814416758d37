// fp16-mixed: gradients of 16 bits are kept from becoming zero by a factor of the loss, which is taken out
// again before the update. The rule is that of PyTorch's GradScaler (torch/amp/grad_scaler.py, version 2.15).
// The factor is a power of two, so it changes no bit of what neither overflows nor becomes too small.
#pragma once

#include <cstdint>

namespace lockstep::train {

/// What the next step's loss is multiplied with, and what it depends on.
struct LossScale {
  double factor = 65536;
  int64_t steps = 0;    ///< made since the factor changed
  int64_t skipped = 0;  ///< steps of the whole run whose gradients were not finite
};

/// After a step, which was skipped where the gradients were not finite: half the factor then, twice as much
/// after 2,000 steps in a row that were not. Throws corrupt_data where no factor helps; step is counted
/// from 1.
LossScale next(LossScale scale, bool skipped, int64_t step);

}  // namespace lockstep::train
