#include "lockstep/nn/layers/normalization.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/normalization.h>

#include "lockstep/base/text.h"

namespace lockstep::nn {
namespace {

template <class Module>
BuiltLayer build_batch_norm(const BatchNorm& options, int64_t channels) {
  auto module = std::make_shared<Module>(torch::nn::BatchNormOptions(channels).eps(options.epsilon).momentum(options.momentum).affine(options.affine));
  return {module, [module](const std::vector<at::Tensor>& taken) { return module->forward(taken[0]); }};
}

}  // namespace

LayerPlan plan_batch_norm(const BatchNorm& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  const int64_t channels = input.shape.front();
  const bool pictures = input.shape.size() == 3;
  LayerPlan plan{.output = input.shape, .output_is_reusable = true};
  if (options.affine) plan.learnables = {{"weight", {channels}}, {"bias", {channels}}};
  plan.states = {{"running_mean", {channels}}, {"running_var", {channels}}};
  plan.build = [options, channels, pictures](bool) {
    return pictures ? build_batch_norm<torch::nn::BatchNorm2dImpl>(options, channels) : build_batch_norm<torch::nn::BatchNorm1dImpl>(options, channels);
  };
  return plan;
}

LayerPlan plan_local_response_norm(const LocalResponseNorm& options, const std::vector<LayerInput>& inputs) {
  LayerPlan plan{.detail = "over " + std::to_string(options.size) + " channels", .output = picture_input(inputs).shape};
  plan.build = [options](bool) {
    auto module = std::make_shared<torch::nn::LocalResponseNormImpl>(
        torch::nn::LocalResponseNormOptions(options.size).alpha(options.alpha).beta(options.beta).k(options.k));
    return BuiltLayer{module, [module](const std::vector<at::Tensor>& taken) { return module->forward(taken[0]); }};
  };
  return plan;
}

}  // namespace lockstep::nn
