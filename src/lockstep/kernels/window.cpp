#include "lockstep/kernels/window.h"

namespace lockstep::kernels {

int64_t window_count(int64_t size, const Window& window) {
  const int64_t room = size + 2 * window.padding - window.dilation * (window.kernel - 1) - 1;
  const int64_t steps = room + (window.ceil_mode ? window.stride - 1 : 0);
  if (steps < 0) return 0;
  int64_t count = steps / window.stride + 1;
  // The last window must start inside the image or its leading padding.
  if (window.ceil_mode && (count - 1) * window.stride >= size + window.padding) --count;
  return count;
}

}  // namespace lockstep::kernels
