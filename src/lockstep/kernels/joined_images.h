// Images into which several layers write their channels.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Images [b,C,H,W] whose channels come from several layers, so that their concatenation does not need to
/// copy them.
struct JoinedImages {
  at::Tensor& whole;  ///< undefined until one of the layers has made it
  int64_t begin;      ///< the layer's first channel
  int64_t channels;   ///< C
};

}  // namespace lockstep::kernels
