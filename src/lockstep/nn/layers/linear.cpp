#include "lockstep/nn/layers/linear.h"

#include <torch/nn/modules/linear.h>

#include "lockstep/kernels/direct_linear.h"
#include "lockstep/nn/recurrence.h"

namespace lockstep::nn {

LayerPlan plan_linear(const Linear& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  const bool sequences = input.shape.size() == 2;
  if (input.shape.size() == 3) {
    throw Misfit{"needs [features], but \"" + input.name + "\" returns " + shape_text(input.shape),
                 "add a flatten layer before it"};
  }
  if (options.features == 0)
    throw Misfit{"needs \"features\", its number of outputs",
                 "use \"features\": \"classes\" in the last layer"};
  const int64_t in = input.shape.front();
  LayerPlan plan{.detail = options.bias ? "" : "no bias",
                 .output = {options.features},
                 .output_is_reusable = true,
                 .keeps_shards_apart = !sequences,
                 .flattens = !sequences};
  if (sequences) plan.output.push_back(input.shape.back());
  plan.learnables.push_back({"weight", {options.features, in}});
  if (options.bias) plan.learnables.push_back({"bias", {options.features}});
  plan.build = [options, in](bool) {
    auto module = std::make_shared<torch::nn::LinearImpl>(
        torch::nn::LinearOptions(in, options.features).bias(options.bias));
    initialize(options.initializer, module->weight, module->bias);
    return BuiltLayer{module, [module](const std::vector<at::Tensor>& taken) {
                        return taken[0].dim() == 3 ? linear_of_steps(taken[0], module->weight, module->bias)
                                                   : kernels::linear(*module, taken[0]);
                      }};
  };
  return plan;
}

LayerPlan plan_flatten(const NoOptions&, const std::vector<LayerInput>& inputs) {
  LayerPlan plan{.output = {checked_count(timeless_input(inputs, "their lengths differ").shape, "an output")},
                 .keeps_shards_apart = true};
  plan.build = [](bool) {
    return BuiltLayer{nullptr, [](const std::vector<at::Tensor>& taken) { return taken[0].flatten(1); }};
  };
  return plan;
}

}  // namespace lockstep::nn
