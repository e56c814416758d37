// Convolutions over images.
#pragma once

#include "lockstep/nn/initializer.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// [C,H,W] -> [filters,H',W'], H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
struct Conv2d {
  int64_t filters = 0;
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  bool bias = true;
  Initializer initializer = Initializer::standard;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("filters", self.filters, "number of channels of the output; \"classes\": the number of classes",
          between(1, 1e6));
    field("kernel", self.kernel, "size of the window", between(1, 1e4));
    field("stride", self.stride, "distance between windows (default: 1)", between(1, 1e4));
    field("padding", self.padding, "rows and columns of zeros around the image (default: 0)",
          between(0, 1e4));
    field("dilation", self.dilation, "distance between the points of a window (default: 1)", between(1, 1e4));
    field("groups", self.groups, "number of independent groups of channels", between(1, 1e6));
    field("bias", self.bias, "add a learned number to each channel");
    field("initializer", self.initializer, "how the weights are initialized");
  };
};
LayerPlan plan_conv2d(const Conv2d& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
