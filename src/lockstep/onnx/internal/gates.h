// The order of the gates in the tensors of recurrent layers. PyTorch: LSTM input, forget, cell, output; GRU
// reset, update, new. ONNX: LSTM input, output, forget, cell; GRU update, reset, new.
#pragma once

#include <string>
#include <vector>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"

namespace lockstep::onnx {

enum class GateOrder { lstm, gru };

inline int64_t gate_count(GateOrder order) { return order == GateOrder::lstm ? 4 : 3; }

/// The parts of a tensor [gates * H, ...] in the order that `from` lists.
inline at::Tensor with_gates(const at::Tensor& tensor, const std::vector<size_t>& from) {
  const auto count = static_cast<int64_t>(from.size());
  if (tensor.dim() == 0 || tensor.size(0) == 0 || tensor.size(0) % count != 0)
    throw Error(ErrorCode::corrupt_data,
                "a tensor of a recurrent layer does not have " + std::to_string(count) + " gates");
  const auto parts = tensor.chunk(count);
  std::vector<at::Tensor> ordered;
  for (const size_t part : from) ordered.push_back(parts.at(part));
  return at::cat(ordered);
}

inline at::Tensor to_onnx_gates(const at::Tensor& tensor, GateOrder order) {
  return with_gates(
      tensor, order == GateOrder::lstm ? std::vector<size_t>{0, 3, 1, 2} : std::vector<size_t>{1, 0, 2});
}

inline at::Tensor from_onnx_gates(const at::Tensor& tensor, GateOrder order) {
  return with_gates(
      tensor, order == GateOrder::lstm ? std::vector<size_t>{0, 2, 3, 1} : std::vector<size_t>{1, 0, 2});
}

}  // namespace lockstep::onnx
