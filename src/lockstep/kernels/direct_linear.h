// A fully connected layer of a classifier that takes images as they lie in memory.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class LinearImpl;
}

namespace lockstep::kernels {

/// What module->forward(input.flatten(1)) gives, for input [b,features] or images [b,C,H,W]. Inside an
/// enabled DirectConvolutions scope, with few outputs or few images in float32 on a CPU, it runs on the
/// kernels of this folder.
at::Tensor linear(torch::nn::LinearImpl& module, const at::Tensor& input);

/// What at::linear gives for input [b,features], on the kernels of this folder; nothing where they do not
/// fit.
std::optional<at::Tensor> direct_linear(const at::Tensor& input, const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias);

}  // namespace lockstep::kernels
