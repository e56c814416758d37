// A fully connected layer of a classifier that reads images in their order of memory.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class LinearImpl;
}

namespace lockstep::kernels {

/// module->forward(input.flatten(1)), for input [b,features] or images [b,C,H,W]. Inside an enabled
/// DirectKernels scope, it uses our kernels for few outputs or few images in float32 on a CPU.
at::Tensor linear(torch::nn::LinearImpl& module, const at::Tensor& input);

/// at::linear for input [b,features] with our kernels; nothing if they do not support it.
std::optional<at::Tensor> direct_linear(const at::Tensor& input, const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias);

}  // namespace lockstep::kernels
