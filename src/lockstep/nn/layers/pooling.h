// Layers that reduce the size of images.
#pragma once

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// [C,H,W] -> [C,H',W']: the maximum of each window.
struct MaxPool {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  bool ceil_mode = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("kernel", self.kernel, "size of the window", between(1, 1e4));
    field("stride", self.stride, "distance between windows (default: the kernel)", between(1, 1e4));
    field("padding", self.padding,
          "rows and columns added around the image, at most half the kernel (default: 0)", between(0, 1e4));
    field("dilation", self.dilation, "distance between the points of a window (default: 1)", between(1, 1e4));
    field("ceil_mode", self.ceil_mode, "also use windows that extend over the edge");
  };
};
LayerPlan plan_max_pool(const MaxPool& options, const std::vector<LayerInput>& inputs);

/// [C,H,W] -> [C,H',W']: the mean of each window; padding counts as zeros.
struct AveragePool {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  bool ceil_mode = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("kernel", self.kernel, "size of the window", between(1, 1e4));
    field("stride", self.stride, "distance between windows (default: the kernel)", between(1, 1e4));
    field("padding", self.padding,
          "rows and columns of zeros around the image, at most half the kernel (default: 0)",
          between(0, 1e4));
    field("ceil_mode", self.ceil_mode, "also use windows that extend over the edge");
  };
};
LayerPlan plan_average_pool(const AveragePool& options, const std::vector<LayerInput>& inputs);

/// [C,H,W] -> [C,size,size]: means over windows chosen so that the output has that size.
struct AdaptiveAveragePool {
  std::vector<int64_t> size{1};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("size", self.size, "height and width of the output", between(1, 1e4));
  };
};
LayerPlan plan_adaptive_average_pool(const AdaptiveAveragePool& options,
                                     const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
