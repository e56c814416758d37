// What a trial of a user's module needs: images, and its buffers as they were.
#pragma once

#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// Images [count,C,H,W] in float32. Draws no random numbers, because the initial weights come from the
/// thread's generator.
inline at::Tensor made_up_images(const NetworkInput& input, int64_t count) {
  return at::arange(count * input.channels * input.height * input.width, at::kFloat)
      .mul_(0.7)
      .sin_()
      .view({count, input.channels, input.height, input.width});
}

/// Restores a module's buffers, such as running statistics, at its end.
class KeptBuffers {
 public:
  explicit KeptBuffers(const torch::nn::Module& module) {
    for (const at::Tensor& buffer : module.buffers()) before_.emplace_back(buffer, buffer.clone());
  }
  ~KeptBuffers() {
    const torch::NoGradGuard no_grad;
    for (auto& [buffer, values] : before_) buffer.copy_(values);
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

}  // namespace lockstep::nn
