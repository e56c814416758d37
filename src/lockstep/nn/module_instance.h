// A module that its user wrote as an instance of a network.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// An instance of a user's own module of images. Inside an enabled kernels::DirectConvolutions scope
/// `forward` is given float32 images channels last if a trial here, on one made-up image in evaluation mode,
/// finds that the module gives the same for either order of memory (Instance::channels_last): code that reads
/// data_ptr() without contiguous() does not.
Instance module_instance(std::shared_ptr<torch::nn::Module> module,
                         std::function<at::Tensor(const at::Tensor&)> forward, const NetworkInput& input);

}  // namespace lockstep::nn
