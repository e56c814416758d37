#include "lockstep/nn/module_instance.h"

#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/memory_order.h"
#include "lockstep/nn/module_trial.h"
#include "lockstep/nn/operator_watch.h"

namespace lockstep::nn {
namespace {

constexpr double kTolerance = 1e-3;  // relative; two convolution algorithms differ by about 1e-5

/// Training or evaluation mode while it exists; afterwards each part has its own mode again.
class InMode {
 public:
  InMode(torch::nn::Module& module, bool training) {
    for (const auto& part : module.modules()) before_.emplace_back(part, part->is_training());
    module.train(training);
  }
  ~InMode() {
    for (const auto& [part, training] : before_)
      part->train(training);  // a part is listed after the part that contains it
  }
  InMode(const InMode&) = delete;
  InMode& operator=(const InMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> before_;
};

bool gives_the_same(torch::nn::Module& module, const std::function<at::Tensor(const at::Tensor&)>& forward,
                    const NetworkInput& input) {
  const torch::NoGradGuard no_grad;
  const kernels::DirectKernels convolutions(true);
  const InMode evaluating(module, false);
  const at::Tensor image = made_up_images(input, 1);
  try {
    const at::Tensor wanted = forward(image), given = forward(kernels::channels_last(image));
    return wanted.sizes() == given.sizes() &&
           at::allclose(given, wanted, kTolerance, kTolerance * wanted.abs().max().item<double>());
  } catch (...) {
    return false;  // an error of the module is reported when it is run
  }
}

/// Whether training writes into rows that are views of images and expects the images to change; with channels
/// last they would not.
bool writes_through_views(torch::nn::Module& module,
                          const std::function<at::Tensor(const at::Tensor&)>& forward,
                          const NetworkInput& input) {
  const torch::NoGradGuard no_grad;
  const kernels::DirectKernels convolutions(true);
  const InMode training(module, true);
  const KeptBuffers kept(module);
  const device::RandomScope own_draws(at::kCPU, 0);
  const kernels::RowCopies copies;
  try {
    forward(kernels::channels_last(
        at::cat({made_up_images(input, 1),
                 made_up_images(input, 1).neg()})));  // two images: batch norm needs more than one value
    return copies.changed();
  } catch (...) {
    return true;
  }
}

/// Channels last, which are not the module's own operators.
at::Tensor reordered(const at::Tensor& images) {
  const at::DisableRecordFunctionGuard unseen;
  const at::Tensor ordered = kernels::channels_last(images);
  OperatorWatch::follow(ordered);
  return ordered;
}

}  // namespace

Instance module_instance(std::shared_ptr<torch::nn::Module> module,
                         std::function<at::Tensor(const at::Tensor&)> forward, const NetworkInput& input) {
  if (module == nullptr)
    throw Error(ErrorCode::invalid_option, "the function that makes the network gave no module",
                "return the module that it makes");
  if (input.time_steps > 0 || !gives_the_same(*module, forward, input) ||
      writes_through_views(*module, forward, input))
    return {std::move(module), std::move(forward)};
  const auto forward_channels_last = [forward = std::move(forward)](const at::Tensor& images) {
    return forward(kernels::DirectKernels::enabled() ? reordered(images) : images);
  };
  return {.module = std::move(module), .forward = forward_channels_last, .channels_last = true};
}

}  // namespace lockstep::nn
