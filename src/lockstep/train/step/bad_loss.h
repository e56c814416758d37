// The error for a loss that is not a finite number: the weights that would follow are lost.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// corrupt_data: "the loss became NaN in step 17, in shard 3". `step` is counted from 1; `part` is "shard 3".
/// Only for a loss that is not finite.
[[nodiscard]] Error bad_loss(double loss, int64_t step, const std::string& part, std::string hint);

}  // namespace lockstep::train
