// Two-dimensional convolutions over images stored channels last, on one thread. There are three methods:
// Winograd's algorithm with tiles of 4 x 4 results, for kernels of 3 x 3 and 5 x 5 with enough channels; sums
// place by place, for small images and for strides; and a direct method for the rest, with products of
// matrices for kernels of 1 x 1. Depthwise convolutions have a method of their own. Vectors contain
// neighbouring channels, padded to 8 (oneDNN pads to 16 or 32), so that 20 channels waste a sixth. If the
// processor has AMX, bfloat16 images are convolved by products of matrices (tile_convolution.h); if it has
// AVX512_BF16, those with kernels of 1 x 1 by products of pairs (pointwise_pairs.h). The reference that
// checks all methods is in internal/test_convolutions.h.
#pragma once

#include <cstdint>

#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {

using kernels::BFloat16;

/// Dilation 1; one group, or as many groups as channels and filters (depthwise); padding is less than the
/// kernel, and the kernel fits into the padded image.
struct ConvolutionShape {
  int64_t batch;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t filters;
  int64_t kernel_height;
  int64_t kernel_width;
  int64_t padding_height;
  int64_t padding_width;
  /// Memory order of weights and their gradient: [filters, channels, kernel_height, kernel_width], or
  /// channels last (the channels innermost).
  bool weight_channels_last;
  int64_t stride_height = 1;
  int64_t stride_width = 1;
  int64_t shards = 1;  ///< equal parts of the batch: gradients of weight and bias are summed in each part,
                       ///< and the sums are added in the tree over the parts
  bool depthwise = false;  ///< filters == channels, and filter i reads channel i only: weights are [filters,
                           ///< 1, kernel_height, kernel_width]

  int64_t output_height() const { return (height + 2 * padding_height - kernel_height) / stride_height + 1; }
  int64_t output_width() const { return (width + 2 * padding_width - kernel_width) / stride_width + 1; }
  bool is_strided() const { return stride_height != 1 || stride_width != 1; }
};

/// The destination of a convolution's results. The filters of a place are neighbours in memory, and two
/// places are `step` numbers apart, so the results may be some channels of wider images. The other channels
/// are not changed.
template <class T>
struct ConvolutionOutput {
  T* data;
  int64_t step;
  bool relu = false;  ///< results below zero become zero; a NaN stays a NaN
};

/// One set, compiled for one instruction set. T, float or BFloat16, is the type of images, weights and bias
/// in memory. Arithmetic and gradients of weights and bias are in float. Inputs are [batch, height, width,
/// channels], outputs and their gradients [batch, output_height, output_width, filters]. All except a
/// ConvolutionOutput are contiguous, and nothing may overlap. Any thread may call; each keeps its own
/// workspace. The bits of a result depend on the shape, on the values, and on whether the processor has fused
/// multiply-adds, AVX512_BF16 or AMX (the sets for AVX2 and AVX-512 give the same bits), but never on
/// addresses, threads or earlier calls.
template <class T>
struct ConvolutionKernels {
  /// output = convolution of input with weight, plus bias [filters] unless it is null
  void (*forward)(const ConvolutionShape& shape, const T* input, const T* weight, const T* bias,
                  const ConvolutionOutput<T>& output);
  /// input_gradient = the loss's gradient by the input, from the gradient by the output
  void (*input_gradient)(const ConvolutionShape& shape, const T* gradient, const T* weight,
                         T* input_gradient);
  /// weight_gradient in the weight's order, and bias_gradient [filters] unless null, from the gradient by the
  /// output and the forward's input
  void (*weight_gradient)(const ConvolutionShape& shape, const T* gradient, const T* input,
                          float* weight_gradient, float* bias_gradient);
};

/// The widest set that device::vector_unit() allows; for BFloat16 the one on AMX if
/// device::has_matrix_unit(), or else the one with AVX512_BF16 if device::rounds_to_bfloat16().
template <class T>
const ConvolutionKernels<T>& convolution_kernels();

/// The places of a small image, at most: with more, its rows are too far apart in memory.
constexpr int64_t kSmallImage = 64;

enum class ConvolutionMethod { winograd, places, direct };

/// The method of these kernels without AVX512_BF16 and AMX. winograd: tiles of 4 x 4 results, for square
/// kernels of 3 and 5 with at least four channels and filters, if this saves products. places: place by
/// place, for other small images and for strides. direct: for the rest.
ConvolutionMethod method_of(const ConvolutionShape& shape);

/// Whether the three passes together take less time than oneDNN's for tensors of T, in training of several
/// shards at once: then oneDNN is called for each shard, and its results are copied. Measured on one core of
/// AMD Zen 4 and Zen 5 with AVX-512 and bfloat16 instructions, and for AMX on an Intel Xeon, against LibTorch
/// 2.11 and 2.15. For a first layer of up to 3 channels the gradient by the input is not counted.
template <class T>
bool is_worthwhile(const ConvolutionShape& shape);

}  // namespace lockstep::kernels
