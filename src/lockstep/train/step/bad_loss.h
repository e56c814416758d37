// A loss that is no finite number: weights that follow from it are lost.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// corrupt_data: "the loss became NaN in step 17, in `place`". step is counted from 1. Only for a loss that
/// is not finite.
[[nodiscard]] Error bad_loss(double loss, int64_t step, const std::string& place, std::string hint);

}  // namespace lockstep::train
