// Lets backward write gradients directly into their destination, instead of into tensors that are then
// copied: for a large layer and few samples, computing the gradient takes no longer than writing it. Only
// built-in layers use it, for parameters that no other layer uses.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// While it lives, backward on this thread may write a parameter's gradient into `gradients` (or add it to
/// the values there), at the parameter's position in `weights`. The parameter's grad() then stays undefined.
/// Both are flat float tensors of the same size in the host's memory, which must outlive the object.
class GradientTarget {
 public:
  GradientTarget(const at::Tensor& weights, const at::Tensor& gradients, bool add);
  ~GradientTarget();
  GradientTarget(const GradientTarget&) = delete;
  GradientTarget& operator=(const GradientTarget&) = delete;

  /// The innermost target of this thread, or null.
  static GradientTarget* current();

  /// Called by a layer's forward that uses the parameter.
  void note_use(const at::Tensor& parameter);

  /// Called by a layer's backward: the memory for the parameter's gradient. The caller writes all of it, or
  /// adds to it if adds(). Null if the parameter is not in the flat tensor or was not used exactly once; its
  /// gradient is then returned in the usual way.
  float* take(const at::Tensor& parameter);
  bool adds() const { return add_; }

  /// Whether the gradient of the parameter that begins at this element was taken.
  bool has(int64_t element) const;

 private:
  struct Use {
    const float* parameter;
    int64_t count = 0;
    bool taken = false;
  };

  const float* weights_;
  int64_t size_;
  float* gradients_;
  bool add_;
  std::vector<Use> uses_;
  GradientTarget* outer_;
};

}  // namespace lockstep::kernels
