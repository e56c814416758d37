// The number format of weights and gradients.
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// Whether layers compute in 16 bits.
inline bool is_mixed(Precision precision) {
  return precision == Precision::bf16_mixed || precision == Precision::fp16_mixed;
}

/// Of the weights; with mixed precision also 32 bits.
inline at::ScalarType number_type(Precision precision) {
  return precision == Precision::double_ ? at::kDouble : at::kFloat;
}
inline int64_t number_bytes(Precision precision) {
  return static_cast<int64_t>(c10::elementSize(number_type(precision)));
}

}  // namespace lockstep::train
