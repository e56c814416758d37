// What several layers write their channels into.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Images [b,C,H,W] whose channels several layers give, so that a concatenation of them has nothing to
/// copy.
struct JoinedImages {
  at::Tensor& whole;  ///< undefined until one of the layers has made it
  int64_t begin;      ///< the layer's first channel
  int64_t channels;   ///< C
};

}  // namespace lockstep::kernels
