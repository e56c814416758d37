#include "lockstep/train/step/gradient_watch.h"

#include <memory>
#include <utility>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::train {

struct GradientWatch::Hook : torch::autograd::PostAccumulateGradHook {
  Hook(GradientWatch& owner, size_t number) : watch(owner), parameter(number) {}
  void operator()(const at::Tensor&) override {
    if (watch.on_) watch.ready_(parameter);
  }
  GradientWatch& watch;
  size_t parameter;
};

GradientWatch::GradientWatch(std::vector<at::Tensor> parameters, Ready ready)
    : parameters_(std::move(parameters)), ready_(std::move(ready)) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].requires_grad())
      torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(*this, i));
  }
}

GradientWatch::~GradientWatch() {
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

}  // namespace lockstep::train
