// Windows of convolutions and pooling.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// A window that slides over one axis, as in convolutions and pooling.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  bool ceil_mode = false;
};
/// The number of places of the window on an axis of `size`, as in PyTorch; below 1 if it does not fit.
int64_t window_count(int64_t size, const Window& window);

}  // namespace lockstep::kernels
