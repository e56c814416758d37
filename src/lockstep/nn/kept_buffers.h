// Keeps what a trial of a module would change.
#pragma once

#include <utility>
#include <vector>

#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

namespace lockstep::nn {

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
