#include "lockstep/nn/layers/normalization.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/normalization.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/kernels/fused_batch_norm.h"

namespace lockstep::nn {
namespace {

torch::nn::BatchNormOptions module_options(const BatchNorm& options, int64_t channels) {
  return torch::nn::BatchNormOptions(channels)
      .eps(options.epsilon)
      .momentum(options.momentum)
      .affine(options.affine);
}

BuiltLayer build_of_features(const BatchNorm& options, int64_t channels) {
  auto module = std::make_shared<torch::nn::BatchNorm1dImpl>(module_options(options, channels));
  return {module, [module](const std::vector<at::Tensor>& taken) { return module->forward(taken[0]); }};
}

BuiltLayer build_of_images(const BatchNorm& options, int64_t channels, bool relu) {
  auto module = std::make_shared<torch::nn::BatchNorm2dImpl>(module_options(options, channels));
  return {module, [module, relu](const std::vector<at::Tensor>& taken) {
            return kernels::batch_norm(*module, taken[0], relu);
          }};
}

}  // namespace

LayerPlan plan_batch_norm(const BatchNorm& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = timeless_input(inputs, "padding would change its statistics");
  const int64_t channels = input.shape.front();
  const bool images = input.shape.size() == 3;
  LayerPlan plan{.output = input.shape, .output_is_reusable = true, .keeps_shards_apart = images};
  if (options.affine) plan.learnables = {{"weight", {channels}}, {"bias", {channels}}};
  plan.states = {{"running_mean", {channels}}, {"running_var", {channels}}};
  plan.build = [options, channels, images](bool) {
    return images ? build_of_images(options, channels, false) : build_of_features(options, channels);
  };
  if (images) plan.build_with_relu = [options, channels] { return build_of_images(options, channels, true); };
  return plan;
}

LayerPlan plan_layer_norm(const LayerNorm& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  const bool sequences = input.shape.size() == 2;
  const Shape normalized = sequences ? Shape{input.shape.front()} : input.shape;
  LayerPlan plan{
      .detail = "over " + shape_text(normalized), .output = input.shape, .output_is_reusable = true};
  if (options.affine) plan.learnables = {{"weight", normalized}, {"bias", normalized}};
  plan.build = [options, normalized, sequences](bool) {
    auto module = std::make_shared<torch::nn::LayerNormImpl>(
        torch::nn::LayerNormOptions(normalized).eps(options.epsilon).elementwise_affine(options.affine));
    return BuiltLayer{module, [module, sequences](const std::vector<at::Tensor>& taken) {
                        // The order of the numbers in memory must be that of the weights.
                        return sequences ? module->forward(taken[0].transpose(1, 2)).transpose(1, 2)
                                         : module->forward(taken[0].contiguous());
                      }};
  };
  return plan;
}

LayerPlan plan_local_response_norm(const LocalResponseNorm& options, const std::vector<LayerInput>& inputs) {
  LayerPlan plan{.detail = "over " + counted(options.size, "channel"), .output = image_input(inputs).shape};
  plan.build = [options](bool) {
    auto module =
        std::make_shared<torch::nn::LocalResponseNormImpl>(torch::nn::LocalResponseNormOptions(options.size)
                                                               .alpha(options.alpha)
                                                               .beta(options.beta)
                                                               .k(options.k));
    return BuiltLayer{module,
                      [module](const std::vector<at::Tensor>& taken) { return module->forward(taken[0]); }};
  };
  return plan;
}

}  // namespace lockstep::nn
