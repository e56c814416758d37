// Max-pooling by the kernels of this folder.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/window.h"

namespace lockstep::kernels {

/// What at::max_pool2d gives, and at::relu before or after it when asked, for float32 and bfloat16 images
/// [b,C,H,W] stored channels last on a CPU; nothing for others and for windows of more than 255 points.
std::optional<at::Tensor> direct_max_pool(const at::Tensor& input, const Window& rows, const Window& columns,
                                          bool relu);

}  // namespace lockstep::kernels
