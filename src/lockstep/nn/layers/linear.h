// Layers over features: linear, flatten. A good model for your own layers.
#pragma once

#include "lockstep/nn/initializer.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// [in] -> [features]: weight [features,in] times the input, plus a bias.
struct Linear {
  int64_t features = 0;
  bool bias = true;
  Initializer initializer = Initializer::standard;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("features", self.features, "number of outputs; \"classes\": the number of classes",
          between(1, 1e9));
    field("bias", self.bias, "add a learned number to each output");
    field("initializer", self.initializer, "how the weights are initialized");
  };
};
LayerPlan plan_linear(const Linear& options, const std::vector<LayerInput>& inputs);

/// [C,H,W] -> [C*H*W].
LayerPlan plan_flatten(const NoOptions& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
