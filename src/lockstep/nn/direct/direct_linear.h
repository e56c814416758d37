// A fully connected layer of a classifier that takes pictures as they lie in memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch::nn {
class LinearImpl;
}

namespace lockstep::nn {

/// What module->forward(input.flatten(1)) gives, for input [b,features] or pictures [b,C,H,W]. Inside an enabled DirectConvolutions scope, with
/// few outputs or few pictures in float32 on a CPU, it runs on the kernels of this folder.
at::Tensor linear(torch::nn::LinearImpl& module, const at::Tensor& input);

}  // namespace lockstep::nn
