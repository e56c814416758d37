// The numbers that weights and gradients are held in.
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include "lockstep/train/options.h"

namespace lockstep::train {

/// Of the masters: bf16-mixed keeps them in 32 bits, too.
inline at::ScalarType number_type(Precision precision) { return precision == Precision::double_ ? at::kDouble : at::kFloat; }
inline int64_t number_bytes(Precision precision) { return static_cast<int64_t>(c10::elementSize(number_type(precision))); }

}  // namespace lockstep::train
