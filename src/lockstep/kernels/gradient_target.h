// Lets backward write gradients where they are wanted, in place of handing them on in tensors that are copied
// next: a large layer's gradient on few samples costs no more to compute than to write. Only built-in layers
// whose parameters nobody else uses ask for it.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// While it lives, backward on this thread may write a parameter's gradient into `gradients` (or add it to
/// what is there), at the parameter's own place in `weights`; the parameter's grad() then stays undefined.
/// Both are flat float tensors of one size in the host's memory, which must outlive this.
class GradientTarget {
 public:
  GradientTarget(const at::Tensor& weights, const at::Tensor& gradients, bool add);
  ~GradientTarget();
  GradientTarget(const GradientTarget&) = delete;
  GradientTarget& operator=(const GradientTarget&) = delete;

  /// This thread's innermost, or null.
  static GradientTarget* current();

  /// A layer's forward says that it uses the parameter.
  void note_use(const at::Tensor& parameter);

  /// A layer's backward takes the place of the parameter's gradient, all of which it then writes, or adds to
  /// where adds(). Null where the parameter does not lie in the flat tensor, or was not used just once: then
  /// its gradient goes the usual way.
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
