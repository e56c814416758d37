#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

/// Whether a contiguous tensor that was read from a file has bools that are neither 0 nor 1. To load one as a
/// bool is undefined behaviour.
inline bool has_bad_bools(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kBool) return false;
  const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  return std::any_of(bytes, bytes + tensor.numel(), [](uint8_t byte) { return byte > 1; });
}

}  // namespace lockstep::nn
