// Max pooling over images stored channels last, on one thread, with vectors along the channels. The forward
// pass keeps a byte for each output: which point of the window was the largest. So the backward pass writes
// each number of its result once. The definition that checks them is in pool_definition_test.cpp.
#pragma once

#include <cstdint>

#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {

using kernels::BFloat16;

/// No dilation, at most 255 points in a window, and no window without a point of the image.
struct PoolShape {
  int64_t batch;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t output_height;
  int64_t output_width;
  int64_t kernel_height;
  int64_t kernel_width;
  int64_t stride_height;
  int64_t stride_width;
  int64_t padding_height;
  int64_t padding_width;
  bool relu;  ///< with a ReLU before or after, which gives the same
};

/// One set, compiled for one instruction set; all sets give the same bits. Inputs are [batch, height, width,
/// channels], outputs and `largest` [batch, output_height, output_width, channels], all contiguous. Any
/// thread may call.
template <class T>
struct PoolKernels {
  /// The largest number of each window, the first of equal ones, or NaN if there is one, as in PyTorch.
  /// `largest` is its position in the window, by rows, or 255 if the ReLU made it zero.
  void (*max_pool)(const PoolShape& shape, const T* input, T* output, uint8_t* largest);
  /// input_gradient = the loss's gradient by the input, from the gradient by the output. Sums are in float,
  /// in the order of the windows.
  void (*max_pool_gradient)(const PoolShape& shape, const T* gradient, const uint8_t* largest,
                            T* input_gradient);
};

/// The widest set that device::vector_unit() allows.
template <class T>
const PoolKernels<T>& pool_kernels();

}  // namespace lockstep::kernels
