// The order of images in memory: channels last, as convolutions take them fastest on a CPU, or first, as
// rows of features have them.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// The same float32 images [b,C,H,W] on a CPU, channels last in memory; all others as they are.
at::Tensor channels_last(const at::Tensor& images);

/// Whether these are float32 or bfloat16 images [b,C,H,W] on a CPU that lie channels last, and not both
/// ways at once as those with one channel do.
bool is_channels_last(const at::Tensor& images);

/// Such images contiguous, with a backward pass: Tensor::contiguous(), some times as fast.
at::Tensor channels_first(const at::Tensor& images);

}  // namespace lockstep::kernels
