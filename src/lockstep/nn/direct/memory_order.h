// The order of pictures in memory: channels last, as convolutions take them fastest on a CPU, or first, as
// rows of features have them.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

/// The same float32 pictures [b,C,H,W] on a CPU, channels last in memory; all others as they are.
at::Tensor channels_last(const at::Tensor& pictures);

/// Whether these are float32 or bfloat16 pictures [b,C,H,W] on a CPU that lie channels last, and not both
/// ways at once as those with one channel do.
bool is_channels_last(const at::Tensor& pictures);

/// Such pictures contiguous, with a backward pass: Tensor::contiguous(), some times as fast.
at::Tensor channels_first(const at::Tensor& pictures);

}  // namespace lockstep::nn
