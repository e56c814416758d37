// Layers for sequences without memory: convolution and pooling over time.
#pragma once

#include <array>

#include "lockstep/nn/initializer.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// Which time steps the window of an output reads: as many before as after it, or only those before it.
enum class TimePadding { same, causal };
constexpr std::array<const char*, 2> enum_names(TimePadding) { return {"same", "causal"}; }

/// [C,T] -> [filters,T].
struct Conv1d {
  int64_t filters = 0;
  int64_t kernel = 0;
  int64_t dilation = 1;
  TimePadding padding = TimePadding::same;
  int64_t groups = 1;
  bool bias = true;
  Initializer initializer = Initializer::standard;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("filters", self.filters, "number of channels of the output; \"classes\": the number of classes",
          between(1, 1e6));
    field("kernel", self.kernel, "number of time steps in the window", between(1, 1e4));
    field("dilation", self.dilation, "distance between the time steps of a window", between(1, 1e4));
    field("padding", self.padding,
          "same: the window is centred on its time step; causal: it ends at its time step");
    field("groups", self.groups, "number of independent groups of channels", between(1, 1e6));
    field("bias", self.bias, "add a learned number to each channel");
    field("initializer", self.initializer, "how the weights are initialized");
  };
};

/// PyTorch's torch.nn.Conv1d with stride 1: the same arithmetic, names and initial weights. Padded time steps
/// count as zeros and return zeros. With bf16-mixed it runs in float32.
LayerPlan plan_conv1d(const Conv1d& options, const std::vector<LayerInput>& inputs);

/// [C,H,W] -> [C,1,1], or [C,T] -> [C]: the maximum of each channel. Padded time steps are ignored; a
/// sequence without time steps returns zeros.
LayerPlan plan_global_max_pool(const NoOptions& options, const std::vector<LayerInput>& inputs);
/// The same with the mean.
LayerPlan plan_global_average_pool(const NoOptions& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
