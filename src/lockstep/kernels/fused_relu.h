// ReLU, alone and together with the sum or the concatenation around it, for float32 and bfloat16 on a CPU.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Whether the next two functions take these tensors: on a CPU, float32 or bfloat16, all of one type and
/// dense in one order.
bool fits_fused_relu(const std::vector<at::Tensor>& tensors);

/// relu(input); in place when asked, for an input that no backward pass needs.
at::Tensor fused_relu(const at::Tensor& input, bool in_place);

/// relu(input) written to `output`, of one order in memory, which is returned; without a graph.
at::Tensor relu_into(const at::Tensor& input, const at::Tensor& output);

/// relu(a + b), of one shape
at::Tensor add_relu(const at::Tensor& a, const at::Tensor& b);

/// Whether concatenate_relu takes these tensors: images [b,C,H,W] stored channels last, on a CPU, float32
/// or bfloat16, all of one type; or the channels of `whole` where they belong.
bool fits_concatenate_relu(const std::vector<at::Tensor>& parts, const at::Tensor& whole);

/// cat of relu(part) along the channels, for images that differ in C only. `whole`, unless undefined,
/// becomes the result; parts that are its channels already, with their ReLU done (JoinedImages), stay as
/// they are.
at::Tensor concatenate_relu(const std::vector<at::Tensor>& parts, const at::Tensor& whole);

}  // namespace lockstep::kernels
