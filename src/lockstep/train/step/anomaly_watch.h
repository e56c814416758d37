// Finds the layer whose values first are not finite (--detect-anomaly).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"

namespace lockstep::train {

/// Looks at the output of each layer in forward, and at its gradient in backward. Belongs to one thread.
class AnomalyWatch {
 public:
  /// From now on looks at what `instance` computes, which must outlive the object. Of a user's module only
  /// the gradients of its parameters are seen.
  explicit AnomalyWatch(nn::Instance& instance);
  ~AnomalyWatch();
  AnomalyWatch(const AnomalyWatch&) = delete;
  AnomalyWatch& operator=(const AnomalyWatch&) = delete;

  struct Place {
    int64_t step = 0;  ///< counted from 0
    int64_t shard = 0;
    bool checks_gradients = true;  ///< false where a scaled loss may overflow
  };
  /// Before forward and backward of a shard. In them, corrupt_data with the name of the layer is thrown for
  /// the first value that is not finite.
  void begin(Place place) { place_ = place; }

  /// After backward: throws the same for a gradient of a learnable that is not finite.
  void check_gradients() const;

 private:
  void check_output(size_t layer, const at::Tensor& output) const;
  void check_gradient_of_output(size_t layer, const at::Tensor& gradient) const;
  [[noreturn]] void report(const std::string& what, const at::Tensor& values) const;

  nn::Instance& instance_;
  Place place_;
};

}  // namespace lockstep::train
