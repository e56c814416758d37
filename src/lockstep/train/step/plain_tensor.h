// Tensors that are worked on without LibTorch's operators, which take longer to begin than small tensors take
// to read.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Whether its numbers, of this type, lie one after the other in the host's memory.
inline bool is_plain(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.is_cpu() && tensor.scalar_type() == type && tensor.is_contiguous();
}

/// Whether these are rows of numbers [b,classes] in float32 and their classes [b], both plain.
inline bool are_plain(const at::Tensor& rows, const at::Tensor& target) {
  return is_plain(rows, at::kFloat) && rows.dim() == 2 && is_plain(target, at::kLong);
}

}  // namespace lockstep::train
