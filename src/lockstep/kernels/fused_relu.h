// ReLU, alone and fused with a sum or a concatenation, for float32 and bfloat16 on a CPU.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Whether fused_relu supports these tensors: on a CPU, float32 or bfloat16, all of the same type, dense, and
/// in the same order of memory.
bool fits_fused_relu(const std::vector<at::Tensor>& tensors);

/// relu(input); in place if `in_place`, for an input that no backward pass needs.
at::Tensor fused_relu(const at::Tensor& input, bool in_place);

/// Writes relu(input) to `output`, which has the same order of memory, and returns it. Without a graph.
at::Tensor relu_into(const at::Tensor& input, const at::Tensor& output);

/// relu(a + b) for tensors of the same shape.
at::Tensor add_relu(const at::Tensor& a, const at::Tensor& b);

/// Whether concatenate_relu supports these tensors: images [b,C,H,W] stored channels last, on a CPU, float32
/// or bfloat16, all of the same type; or the channels of `whole` to which they belong.
bool fits_concatenate_relu(const std::vector<at::Tensor>& parts, const at::Tensor& whole);

/// The concatenation of relu(part) along the channels, for images that differ only in C. `whole`, unless
/// undefined, receives the result. Parts that are already its channels, after their ReLU (JoinedImages), are
/// not changed.
at::Tensor concatenate_relu(const std::vector<at::Tensor>& parts, const at::Tensor& whole);

}  // namespace lockstep::kernels
