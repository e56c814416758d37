#include "lockstep/nn/module_instance.h"

#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/nn/direct/direct_convolution.h"
#include "lockstep/nn/direct/memory_order.h"

namespace lockstep::nn {
namespace {

constexpr double kTolerance = 1e-3;  // relative; two ways to convolve differ by 1e-5 or so

/// Evaluation mode while it lives, then each part's own again.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& module) {
    for (const auto& part : module.modules()) before_.emplace_back(part, part->is_training());
    module.eval();
  }
  ~Evaluating() {
    for (const auto& [part, training] : before_) part->train(training);  // a part comes after the one that it is in
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> before_;
};

// Without random numbers: the first weights are drawn from the thread's generator.
at::Tensor made_up_picture(const NetworkInput& input) {
  return at::arange(input.channels * input.height * input.width, at::kFloat).mul_(0.7).sin_().view({1, input.channels, input.height, input.width});
}

bool gives_the_same(torch::nn::Module& module, const std::function<at::Tensor(const at::Tensor&)>& forward, const NetworkInput& input) {
  const torch::NoGradGuard no_grad;
  const DirectConvolutions convolutions(true);
  const Evaluating evaluating(module);
  const at::Tensor picture = made_up_picture(input);
  try {
    const at::Tensor wanted = forward(picture), given = forward(channels_last(picture));
    return wanted.sizes() == given.sizes() && at::allclose(given, wanted, kTolerance, kTolerance * wanted.abs().max().item<double>());
  } catch (...) {
    return false;  // what is wrong with the module shows where it is run
  }
}

}  // namespace

Instance module_instance(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward, const NetworkInput& input) {
  if (input.steps > 0 || !gives_the_same(*module, forward, input)) return {std::move(module), std::move(forward)};
  const auto forward_channels_last = [forward = std::move(forward)](const at::Tensor& pictures) { return forward(DirectConvolutions::enabled() ? channels_last(pictures) : pictures); };
  return {.module = std::move(module), .forward = forward_channels_last, .channels_last = true};
}

}  // namespace lockstep::nn
