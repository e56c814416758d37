#include "lockstep/nn/layers/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/modules/dropout.h>

#include "lockstep/base/text.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/fused_dropout.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::nn {
namespace {

template <class Function>
LayerPlan plan_function(const std::vector<LayerInput>& inputs, Function function) {
  LayerPlan plan{.output = only_input(inputs).shape, .keeps_shards_apart = true};
  plan.build = [function](bool) {
    return BuiltLayer{nullptr, [function](const std::vector<at::Tensor>& taken) {
                        return kernels::shard_by_shard(taken[0], function);
                      }};
  };
  return plan;
}

}  // namespace

LayerPlan plan_relu(const NoOptions&, const std::vector<LayerInput>& inputs) {
  LayerPlan plan{.output = only_input(inputs).shape, .can_overwrite = true, .keeps_shards_apart = true};
  plan.build = [](bool overwrite) {
    return BuiltLayer{nullptr, [overwrite](const std::vector<at::Tensor>& taken) {
                        at::Tensor tensor = taken[0];
                        return overwrite ? tensor.relu_() : at::relu(tensor);
                      }};
  };
  return plan;
}

LayerPlan plan_relu6(const NoOptions&, const std::vector<LayerInput>& inputs) {
  LayerPlan plan{.output = only_input(inputs).shape, .keeps_shards_apart = true};
  plan.build = [](bool) {
    return BuiltLayer{nullptr, [](const std::vector<at::Tensor>& taken) {
                        return at::hardtanh(taken[0], 0, 6);  // exact for each number
                      }};
  };
  return plan;
}

LayerPlan plan_tanh(const NoOptions&, const std::vector<LayerInput>& inputs) {
  return plan_function(inputs, [](const at::Tensor& tensor) { return at::tanh(tensor); });
}

LayerPlan plan_sigmoid(const NoOptions&, const std::vector<LayerInput>& inputs) {
  return plan_function(inputs, [](const at::Tensor& tensor) { return at::sigmoid(tensor); });
}

LayerPlan plan_gelu(const NoOptions&, const std::vector<LayerInput>& inputs) {
  return plan_function(inputs, [](const at::Tensor& tensor) { return at::gelu(tensor); });
}

LayerPlan plan_softmax(const NoOptions&, const std::vector<LayerInput>& inputs) {
  LayerPlan plan = plan_function(inputs, [](const at::Tensor& tensor) { return at::softmax(tensor, 1); });
  plan.gives_logits = false;
  return plan;
}

LayerPlan plan_leaky_relu(const LeakyRelu& options, const std::vector<LayerInput>& inputs) {
  LayerPlan plan = plan_function(
      inputs, [slope = options.slope](const at::Tensor& tensor) { return at::leaky_relu(tensor, slope); });
  plan.detail = "slope " + shortest(options.slope);
  return plan;
}

LayerPlan plan_dropout(const Dropout& options, const std::vector<LayerInput>& inputs) {
  LayerPlan plan{.detail = "probability " + shortest(options.probability),
                 .output = only_input(inputs).shape,
                 .random = options.probability > 0,
                 .keeps_shards_apart = true};
  plan.build = [probability = options.probability](bool) {
    auto module = std::make_shared<torch::nn::DropoutImpl>(torch::nn::DropoutOptions(probability));
    return BuiltLayer{module, [module](const std::vector<at::Tensor>& taken) {
                        const bool fused = module->is_training() && kernels::DirectKernels::enabled() &&
                                           kernels::fits_fused_dropout(taken[0]);
                        if (fused) return kernels::fused_dropout(taken[0], module->options.p());
                        if (module->is_training() && module->options.p() > 0) kernels::ShardsTogether::mix();
                        return module->forward(taken[0]);
                      }};
  };
  return plan;
}

}  // namespace lockstep::nn
