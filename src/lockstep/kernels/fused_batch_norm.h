// Batch norm and ReLU in one pass each way, for images stored channels last on a CPU.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class BatchNorm2dImpl;
}

namespace lockstep::kernels {

/// What at::batch_norm is given beside its input, float32 [C] each.
struct BatchNormState {
  at::Tensor weight, bias, running_mean, running_variance;
  double momentum = 0.1;  ///< of the running statistics
  double epsilon = 1e-5;
  bool training = true;  ///< normalises by the batch, and moves the running statistics; else by these
};

/// at::batch_norm, then relu when asked, in two passes (Ioffe and Szegedy 2015, with the backward of the
/// whole), or in one that takes no gradient by the running statistics. Inside an enabled DirectConvolutions
/// scope, for float32 or bfloat16 images [b,C,H,W] stored channels last on a CPU; nothing for all others.
std::optional<at::Tensor> fused_batch_norm(const at::Tensor& input, const BatchNormState& state, bool relu);

/// relu(output), in place when asked, where fused_batch_norm(..., false) just made `output` and gradients are
/// recorded: backward then is the two passes of both. Nothing for all others.
std::optional<at::Tensor> relu_of_batch_norm(const at::Tensor& output, bool in_place);

/// What module->forward(input) gives, then relu when asked: fused where it can be, else by the operators of
/// the engine.
at::Tensor batch_norm(torch::nn::BatchNorm2dImpl& module, const at::Tensor& input, bool relu);

}  // namespace lockstep::kernels
