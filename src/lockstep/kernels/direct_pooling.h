// Max pooling with our kernels.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/window.h"

namespace lockstep::kernels {

/// at::max_pool2d, with at::relu before or after it if `relu`, for float32 and bfloat16 images [b,C,H,W]
/// stored channels last on a CPU. Nothing for other tensors, and for windows of more than 255 points.
std::optional<at::Tensor> direct_max_pool(const at::Tensor& input, const Window& rows, const Window& columns,
                                          bool relu);

}  // namespace lockstep::kernels
