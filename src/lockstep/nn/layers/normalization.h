// Layers that normalize.
#pragma once

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// [C,H,W] or [features] to the same shape: mean 0 and variance 1 of each channel over the batch, then a
/// learned scale and shift.
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool affine = true;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("epsilon", self.epsilon, "added to the variance", above(0, 1e3));
    field("momentum", self.momentum, "weight of the newest batch in the running statistics", between(0, 1));
    field("affine", self.affine, "learn a scale and a shift for each channel");
  };
};
LayerPlan plan_batch_norm(const BatchNorm& options, const std::vector<LayerInput>& inputs);

/// The same shape: mean 0 and variance 1 over the numbers of a sample, [C,H,W] or [features], or over the
/// channels of each time step of a sequence [C,T]; then a learned scale and shift of each number. PyTorch's
/// torch.nn.LayerNorm. Ba et al. 2016.
struct LayerNorm {
  double epsilon = 1e-5;
  bool affine = true;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("epsilon", self.epsilon, "added to the variance", above(0, 1e3));
    field("affine", self.affine, "learn a scale and a shift for each number");
  };
};
LayerPlan plan_layer_norm(const LayerNorm& options, const std::vector<LayerInput>& inputs);

/// [C,H,W] to the same shape: x / (k + alpha / size * sum of squares over `size` neighbouring channels) ^
/// beta. Krizhevsky et al. 2012.
struct LocalResponseNorm {
  int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1.0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("size", self.size, "number of neighbouring channels", between(1, 1e6));
    field("alpha", self.alpha, "factor of the sum", between(-1e6, 1e6));
    field("beta", self.beta, "exponent", between(-1e3, 1e3));
    field("k", self.k, "added to the sum", between(-1e6, 1e6));
  };
};
LayerPlan plan_local_response_norm(const LocalResponseNorm& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
