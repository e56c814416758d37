// Elementwise functions, and dropout. All keep the shape.
#pragma once

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

LayerPlan plan_relu(const NoOptions& options, const std::vector<LayerInput>& inputs);
/// min(max(x, 0), 6).
LayerPlan plan_relu6(const NoOptions& options, const std::vector<LayerInput>& inputs);
LayerPlan plan_tanh(const NoOptions& options, const std::vector<LayerInput>& inputs);
LayerPlan plan_sigmoid(const NoOptions& options, const std::vector<LayerInput>& inputs);
LayerPlan plan_gelu(const NoOptions& options, const std::vector<LayerInput>& inputs);

/// Over the channels of [C,H,W] or over [features]. Not allowed as the last layer: the loss and the scores
/// apply it to logits themselves.
LayerPlan plan_softmax(const NoOptions& options, const std::vector<LayerInput>& inputs);

struct LeakyRelu {
  double slope = 0.01;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("slope", self.slope, "factor for numbers below 0", between(-1e6, 1e6));
  };
};
LayerPlan plan_leaky_relu(const LeakyRelu& options, const std::vector<LayerInput>& inputs);

struct Dropout {
  double probability = 0.5;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("probability", self.probability, "share of numbers set to 0 in training", between(0, 1));
  };
};
LayerPlan plan_dropout(const Dropout& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
