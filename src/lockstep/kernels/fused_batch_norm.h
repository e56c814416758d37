// Batch norm and ReLU in one pass each way, for images stored channels last on a CPU.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class BatchNorm2dImpl;
}

namespace lockstep::kernels {

/// The arguments of at::batch_norm beside its input; tensors are float32 [C].
struct BatchNormState {
  at::Tensor weight, bias, running_mean, running_variance;
  double momentum = 0.1;  ///< of the running statistics
  double epsilon = 1e-5;
  bool training = true;  ///< normalise by the batch and move the running statistics; otherwise by these
};

/// at::batch_norm, then ReLU if `relu`, in two passes over the images (Ioffe and Szegedy 2015) with one
/// backward pass for both. With running statistics it is one pass, without gradients. Inside an enabled
/// DirectKernels scope, for float32 or bfloat16 images [b,C,H,W] stored channels last on a CPU; nothing
/// otherwise.
std::optional<at::Tensor> fused_batch_norm(const at::Tensor& input, const BatchNormState& state, bool relu);

/// relu(output), in place if `in_place`, for an `output` of fused_batch_norm(..., false) with gradients:
/// backward then takes both together in two passes. Nothing otherwise.
std::optional<at::Tensor> relu_of_batch_norm(const at::Tensor& output, bool in_place);

/// module->forward(input), then ReLU if `relu`: fused if possible, otherwise with the engine's operators.
at::Tensor batch_norm(torch::nn::BatchNorm2dImpl& module, const at::Tensor& input, bool relu);

}  // namespace lockstep::kernels
