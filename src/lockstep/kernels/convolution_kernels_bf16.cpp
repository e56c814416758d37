// For processors with an instruction that multiplies pairs of bfloat16 numbers. What it does not make faster
// is left to the kernels for AVX-512.
#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/internal/linked_pairs.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ConvolutionKernels, convolution_kernels)

namespace {

bool is_of_one_place(const ConvolutionShape& shape) {
  return shape.kernel_height == 1 && shape.kernel_width == 1 && !shape.depthwise;
}

// Winograd's algorithm multiplies two to three times less, but pairs are multiplied twice as fast, and it
// transforms weights: they are many beside the places of a small image.
bool is_linked(const ConvolutionShape& shape) {
  constexpr int64_t kManyWeights = 65536, kTilePlaces = 16;
  if (shape.depthwise || shape.height * shape.width > kSmallImage) return false;
  if (method_of(shape) != ConvolutionMethod::winograd) return method_of(shape) == ConvolutionMethod::places;
  return shape.output_height() * shape.output_width() <= kTilePlaces ||
         shape.channels * shape.filters > kManyWeights;
}

void forward(const ConvolutionShape& shape, const BFloat16* input, const BFloat16* weight,
             const BFloat16* bias, const ConvolutionOutput<BFloat16>& output) {
  if (is_of_one_place(shape)) return pointwise_by_pairs(shape, input, weight, bias, output);
  if (is_linked(shape)) return linked_forward(shape, input, weight, bias, output);
  avx512_convolution_kernels(BFloat16{}).forward(shape, input, weight, bias, output);
}

void input_gradient(const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* weight,
                    BFloat16* input_gradient) {
  if (is_of_one_place(shape))
    return pointwise_input_gradient_by_pairs(shape, gradient, weight, input_gradient);
  if (is_linked(shape)) return linked_input_gradient(shape, gradient, weight, input_gradient);
  avx512_convolution_kernels(BFloat16{}).input_gradient(shape, gradient, weight, input_gradient);
}

void weight_gradient(const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* input,
                     float* weight_gradient, float* bias_gradient) {
  if (is_of_one_place(shape))
    return pointwise_weight_gradient_by_pairs(shape, gradient, input, {weight_gradient, bias_gradient});
  if (is_linked(shape))
    return linked_weight_gradient(shape, gradient, input, {weight_gradient, bias_gradient});
  avx512_convolution_kernels(BFloat16{})
      .weight_gradient(shape, gradient, input, weight_gradient, bias_gradient);
}

constexpr ConvolutionKernels<BFloat16> kPairKernels{&forward, &input_gradient, &weight_gradient};

}  // namespace

const ConvolutionKernels<BFloat16>& bf16_convolution_kernels(BFloat16) { return kPairKernels; }

}  // namespace lockstep::kernels
