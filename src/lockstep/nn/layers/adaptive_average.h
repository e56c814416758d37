// Adaptive average pooling whose gradient repeats its bits on a GPU too.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// [b,C,H,W] to [b,C,size.height,size.width], with the windows of at::adaptive_avg_pool2d but in another
/// order of addition. The result may be `images` itself.
at::Tensor repeatable_adaptive_average(const at::Tensor& images, Pair size);

}  // namespace lockstep::nn
