#include "lockstep/kernels/convolution_kernels.h"

#include <cpuid.h>

#include <algorithm>
#include <type_traits>

#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/internal/processor.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ConvolutionKernels, convolution_kernels)
const ConvolutionKernels<BFloat16>& bf16_convolution_kernels(BFloat16);
const ConvolutionKernels<BFloat16>& amx_convolution_kernels();

namespace {

/// AMD's family 26, but for the Zen 5 of notebooks (models 20h to 2Fh and 60h to 6Fh), which splits wide
/// vectors.
bool is_wide_zen5() {
  unsigned signature = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &signature, &ebx, &ecx, &edx) == 0) return false;
  const unsigned family = (signature >> 8 & 0xF) + (signature >> 20 & 0xFF);
  const unsigned models = signature >> 16 & 0xF;
  return family == 26 && models != 2 && models != 6;
}

}  // namespace

bool prefers_wide_vectors() {
  static const bool wide = __builtin_cpu_is("intel") || is_wide_zen5();
  return wide;
}

namespace {

// oneDNN pads channels to at least 16, these kernels to 8.
bool pads_less(int64_t channels) { return (channels + 15) / 16 * 2 > (channels + 7) / 8; }

/// The number of pairs of an input place and an output place that the kernel connects, in one dimension.
int64_t links_of(int64_t size, int64_t output, int64_t kernel, int64_t padding, int64_t stride) {
  int64_t links = 0;
  for (int64_t place = 0; place < output; ++place) {
    const int64_t begin = place * stride - padding;
    links += std::min(begin + kernel, size) - std::max<int64_t>(begin, 0);
  }
  return links;
}

// For one channel and one filter, without products with the padding.
int64_t products_of_image(const ConvolutionShape& shape) {
  return links_of(shape.height, shape.output_height(), shape.kernel_height, shape.padding_height,
                  shape.stride_height) *
         links_of(shape.width, shape.output_width(), shape.kernel_width, shape.padding_width,
                  shape.stride_width);
}

// Tiles of 4 x 4 outputs.
int64_t tiles_of_image(const ConvolutionShape& shape) {
  return ((shape.output_height() + 3) / 4) * ((shape.output_width() + 3) / 4);
}

bool fits_winograd(const ConvolutionShape& shape) {
  const bool kernel =
      shape.kernel_height == shape.kernel_width && (shape.kernel_height == 3 || shape.kernel_height == 5);
  return kernel && !shape.is_strided() && shape.channels >= 4 && shape.filters >= 4;
}

// A tile always needs 36 or 64 products for a channel and a filter, even if only a small part of it is in the
// image, as in images of 2x2.
bool saves_half(const ConvolutionShape& shape) {
  const int64_t side = shape.kernel_height + 3;
  return products_of_image(shape) >= 2 * side * side * tiles_of_image(shape);
}

}  // namespace

ConvolutionMethod method_of(const ConvolutionShape& shape) {
  const bool many = shape.channels >= 8 && shape.filters >= 8;
  const bool kernel = shape.kernel_height > 1 || shape.kernel_width > 1;
  const bool small = shape.height * shape.width <= kSmallImage;
  if (fits_winograd(shape) && (!small || !many || saves_half(shape))) return ConvolutionMethod::winograd;
  return many && ((small && kernel) || shape.is_strided()) ? ConvolutionMethod::places
                                                           : ConvolutionMethod::direct;
}

namespace {

LOCKSTEP_DEFINE_WIDEST(ConvolutionKernels, convolution_kernels, vector_convolution_kernels)

// The AMX kernels reorder the whole weight, although a kernel over a single place uses little of it.
const ConvolutionKernels<BFloat16>& kernels_for(const ConvolutionShape& shape) {
  const bool single =
      shape.output_height() * shape.output_width() == 1 && shape.kernel_height * shape.kernel_width > 1;
  return shape.depthwise || (single && method_of(shape) == ConvolutionMethod::places)
             ? vector_convolution_kernels<BFloat16>()
             : amx_convolution_kernels();
}

// The AMX kernels sum over 32 places in a line at once, and in small images few of these are in the image.
const ConvolutionKernels<BFloat16>& kernels_for_weights(const ConvolutionShape& shape) {
  const bool small = shape.height * shape.width <= kSmallImage;
  return shape.depthwise || (small && method_of(shape) == ConvolutionMethod::places)
             ? vector_convolution_kernels<BFloat16>()
             : amx_convolution_kernels();
}

constexpr ConvolutionKernels<BFloat16> kWithMatrixUnit{
    [](const ConvolutionShape& shape, const BFloat16* input, const BFloat16* weight, const BFloat16* bias,
       const ConvolutionOutput<BFloat16>& output) {
      kernels_for(shape).forward(shape, input, weight, bias, output);
    },
    [](const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* weight,
       BFloat16* input_gradient) {
      kernels_for(shape).input_gradient(shape, gradient, weight, input_gradient);
    },
    [](const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* input, float* weight_gradient,
       float* bias_gradient) {
      kernels_for_weights(shape).weight_gradient(shape, gradient, input, weight_gradient, bias_gradient);
    }};

}  // namespace

template <>
const ConvolutionKernels<float>& convolution_kernels<float>() {
  return vector_convolution_kernels<float>();
}

template <>
const ConvolutionKernels<BFloat16>& convolution_kernels<BFloat16>() {
  if (device::has_matrix_unit()) return kWithMatrixUnit;
  return device::rounds_to_bfloat16() ? bf16_convolution_kernels({}) : vector_convolution_kernels<BFloat16>();
}

// clang-format off
// Milliseconds of each pass: forward, gradient by input, gradient by weight. A dash: not measured.
//   float32                   ours                   oneDNN
//   1->20     5x5 of 28x28    0.11   -      0.12     0.29   -      0.23
//   3->32     3x3 of 32x32    0.37   -      0.40     0.41   -      0.48
//   3->64     3x3 of 32x32    0.84   -      0.86     0.69   -      0.90
//   20->20    1x1 of 24x24    0.10   0.10   0.14     0.18   0.19   0.25
//   20->20    3x3 of 24x24    0.30   0.30   0.30     0.94   0.94   1.01
//   20->20    7x7 of 24x24    4.2    4.2    4.4      5.0    5.1    5.3
//   20->50    5x5 of 12x12    0.17   0.15   0.22     0.68   0.83   0.70
//   48->48    7x7 of 14x14    6.5    6.6    6.6      5.4    5.6    6.5
//   64->64    1x1 of 32x32    1.4    1.3    1.6      1.3    1.4    1.6
//   64->64    3x3 of 32x32    3.9    3.9    4.2     10.7   10.7   12.5
//   256->256  3x3 of 4x4      2.5    2.1    3.1      3.0    3.3    4.6
//   512->512  3x3 of 4x4     10.1   10.2   17.0     12.4   10.0   28.8
//   bfloat16                  ours                   oneDNN
//   1->20     5x5 of 28x28    0.13   -      0.14     0.21   -      0.81
//   20->20    3x3 of 24x24    0.32   0.32   0.30     0.51   0.51   0.71
//   20->50    5x5 of 12x12    0.17   0.15   0.22     0.34   0.50   0.46
//   256->256  3x3 of 8x8      5.0    5.0    5.9      4.8    4.8    5.9
// Milliseconds of each pass for 16 shards of four images, bfloat16, on one core of a Zen 5 with AVX512_BF16.
// oneDNN is called for each shard; in brackets, all three passes of one call for all images.
//                             ours                   oneDNN
//   3->64     3x3 of 64x64    6.5    -      7.1      34.3   -      4.9    (21)
//   16->96    1x1 of 48x48    1.8    1.4    3.8      3.1    3.1    3.2    (6.7)
//   96->576   1x1 of 6x6      0.59   0.53   0.74     1.16   1.05   1.54   (1.8)
//   64->256   1x1 of 16x16    1.3    1.2    1.5      1.8    1.5    2.1    (3.6)
//   256->512  1x1 of 8x8      2.2    2.2    3.1      3.3    3.2    4.3    (7.1)
//   512->512  3x3 of 4x4      7.0    6.9    8.8      -      -      -      (-)
//   512->2048 1x1 of 2x2      1.1    1.1    1.7      7.1    7.0    13.2   (7.5)
// Milliseconds of all three passes with AMX, bfloat16, on one core of an Intel Xeon of the fourth generation.
//   batch  convolution               ours   oneDNN
//      16  20->20    3x3 of 24x24     1.23     1.90
//       8  20->50    5x5 of 12x12     0.96     1.62
//      16  64->64    1x1 of 32x32     2.2      2.3
//      16  64->64    3x3 of 8x8       0.96     1.65
//      16  64->64    3x3 of 32x32    13.1     13.5
//      16  256->256  3x3 of 2x2       4.8     12.1
//       4  16->64    3x3 of 55x55     2.6      3.0
//       4  48->192   3x3 of 27x27     2.9      6.0
//       4  128->32   1x1 of 55x55     2.2      2.6
//       4  512->64   1x1 of 13x13     0.71     0.84
// clang-format on
template <class T>
bool is_worthwhile(const ConvolutionShape& shape) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  if (shape.depthwise) return true;
  if (!kFloat && device::has_matrix_unit()) return true;  // the third table
  const bool pointwise = shape.kernel_height == 1 && shape.kernel_width == 1;
  if (!kFloat && pointwise && device::rounds_to_bfloat16()) return true;  // the second table
  const ConvolutionMethod method = method_of(shape);
  if (method == ConvolutionMethod::winograd) {
    // Each pass transforms all weights, which is only worth it with enough tiles. The shards of a worker
    // share the transform, so a shard of four images need not be worth it alone.
    return saves_half(shape) && shape.channels * shape.filters <= 65536 * shape.batch * tiles_of_image(shape);
  }
  if (method == ConvolutionMethod::places)
    return shape.height * shape.width <= (kFloat && !pointwise ? 4 * kSmallImage : kSmallImage);
  if (shape.channels == 1) return true;
  if (shape.is_strided()) return false;
  // In bfloat16, oneDNN multiplies up to 1.7 times as fast; but with few places in a shard, it mostly writes
  // the gradients of weights.
  if (pointwise) return kFloat || shape.batch * shape.height * shape.width <= kSmallImage;
  if (shape.channels <= 3) return !kFloat || shape.filters <= 32;
  return kFloat && pads_less(shape.channels) && pads_less(shape.filters);
}

template bool is_worthwhile<float>(const ConvolutionShape& shape);
template bool is_worthwhile<BFloat16>(const ConvolutionShape& shape);

}  // namespace lockstep::kernels
