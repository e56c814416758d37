// Makes an instance of a network from a user's module.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// An instance of a user's module for images. Inside an enabled kernels::DirectKernels scope, `forward`
/// gets float32 images channels last (Instance::channels_last) if a trial with one synthetic image in
/// evaluation mode shows that the module returns the same for both memory orders. Code that reads data_ptr()
/// without contiguous() does not.
Instance module_instance(std::shared_ptr<torch::nn::Module> module,
                         std::function<at::Tensor(const at::Tensor&)> forward, const NetworkInput& input);

}  // namespace lockstep::nn
