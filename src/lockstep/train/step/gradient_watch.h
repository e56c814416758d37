// Notices each gradient as soon as backward has made it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// While it lives and is on, it calls ready(i) on the thread that runs backward each time parameter i has
/// received its gradient. It does not call ready() for a parameter without a gradient. For a parameter that
/// is in the list twice, i is the later position.
class GradientWatch {
 public:
  using Ready = std::function<void(size_t parameter)>;
  GradientWatch(std::vector<at::Tensor> parameters, Ready ready);
  ~GradientWatch();
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

  void set_on(bool on) { on_ = on; }

 private:
  struct Hook;
  std::vector<at::Tensor> parameters_;
  Ready ready_;
  bool on_ = false;
};

}  // namespace lockstep::train
