// Batch norm with an optional ReLU over images stored channels last: plain loops over rows of channels, one
// thread. The definition that checks them is in channel_definition_test.cpp.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// A bfloat16 number as it is stored.
struct BFloat16 {
  uint16_t bits;
};

/// One set, compiled for one instruction set. All sets give the same bits, except for bfloat16 results below
/// 2^-126: these are zero if the processor rounds to bfloat16. T is float or BFloat16; arithmetic is in
/// float. `rows` is batch * height * width; tensors are [rows, channels]; per-channel arrays are float
/// [channels].
template <class T>
struct ChannelKernels {
  /// mean[c] and sum of squared deviations[c] over the rows, in two passes to avoid cancellation.
  void (*moments)(const T* input, int64_t rows, int64_t channels, float* mean, float* deviation);
  /// output = input * scale + shift, then max(0, .) if relu
  void (*transform)(const T* input, int64_t rows, int64_t channels, const float* scale, const float* shift,
                    bool relu, T* output);
  /// sums over the rows of g and of g * (input - mean), where g is the output's gradient, zero where relu cut
  /// the output
  void (*gradient_sums)(const T* gradient, const T* input, int64_t rows, int64_t channels, const float* scale,
                        const float* shift, const float* mean, bool relu, float* sum, float* sum_of_products);
  /// input_gradient = g * scale + (input - mean) * slope + offset; it may be `gradient`
  void (*input_gradient)(const T* gradient, const T* input, int64_t rows, int64_t channels,
                         const float* scale, const float* shift, const float* mean, const float* slope,
                         const float* offset, bool relu, T* input_gradient);
};

/// The widest set that device::vector_unit() allows. For bfloat16 it rounds with the processor's instruction,
/// if there is one.
template <class T>
const ChannelKernels<T>& channel_kernels();

}  // namespace lockstep::kernels
