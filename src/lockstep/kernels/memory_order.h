// The order of images in memory: channels last, which is fastest for convolutions on a CPU, or channels
// first, as in rows of features.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Float32 images [b,C,H,W] on a CPU with channels last in memory; returns any other tensor unchanged.
at::Tensor channels_last(const at::Tensor& images);

/// Whether these are float32 or bfloat16 images [b,C,H,W] on a CPU with channels last in memory, and not with
/// both orders at once, as images with one channel have.
bool is_channels_last(const at::Tensor& images);

/// Tensor::contiguous() for such images, with a backward pass, and several times as fast.
at::Tensor channels_first(const at::Tensor& images);

}  // namespace lockstep::kernels
