// The text of the convolution kernels, compiled once per instruction set; LOCKSTEP_CONVOLUTION_KERNELS is the
// name of the function that returns them.
#pragma once

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/depthwise.h"
#include "lockstep/kernels/internal/direct.h"
#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/places.h"
#include "lockstep/kernels/internal/pointwise.h"
#include "lockstep/kernels/internal/processor.h"
#include "lockstep/kernels/internal/winograd_blocks.h"

namespace lockstep::kernels {
namespace {

/// The convolution that computes the gradient by the input: channels and filters are exchanged, and the
/// kernel is rotated by 180 degrees.
ConvolutionShape reversed(const ConvolutionShape& shape) {
  ConvolutionShape result = shape;
  result.channels = shape.filters;
  result.filters = shape.channels;
  result.height = shape.output_height();
  result.width = shape.output_width();
  result.padding_height = shape.kernel_height - 1 - shape.padding_height;
  result.padding_width = shape.kernel_width - 1 - shape.padding_width;
  return result;
}

WeightMatrix reversed_weight(const ConvolutionShape& shape) {
  WeightMatrix matrix = weight_by_channels(shape);
  matrix.flipped = true;
  return matrix;
}

/// Calls work(lanes) with the width of the vectors as a compile-time constant. The bits do not depend on it.
template <class Work>
void with_lanes(const ConvolutionShape& shape, Work&& work) {
#if defined(__AVX512F__)
  const auto pads_more = [](int64_t count) { return divided_up(count, 16) * 2 != divided_up(count, 8); };
  if (!prefers_wide_vectors() && (pads_more(shape.channels) || pads_more(shape.filters)))
    return work(std::integral_constant<int, 8>{});
  work(std::integral_constant<int, 16>{});
#elif defined(__AVX2__)
  (void)shape;
  work(std::integral_constant<int, 8>{});
#else
  (void)shape;
  work(std::integral_constant<int, 4>{});
#endif
}

bool is_pointwise(const ConvolutionShape& shape) {
  return shape.kernel_height == 1 && shape.kernel_width == 1 && !shape.is_strided();
}

/// With tiles or directly. `shape` may be a reversed one, so the caller gives the method.
template <class T>
void convolve(const ConvolutionShape& shape, ConvolutionMethod method, const T* input, const T* weight,
              const WeightMatrix& matrix, const T* bias, const ConvolutionOutput<T>& output) {
  with_lanes(shape, [&](auto lanes) {
    if (is_pointwise(shape)) {
      pointwise_convolution<T, lanes>(shape, input, weight, matrix, bias, output);
    } else if (method != ConvolutionMethod::winograd) {
      direct_convolution<T, lanes>(shape, input, weight, matrix, bias, output);
    } else if (shape.kernel_height == 3) {
      winograd_convolution<T, lanes, 3>(shape, input, weight, matrix, bias, output);
    } else {
      winograd_convolution<T, lanes, 5>(shape, input, weight, matrix, bias, output);
    }
  });
}

template <class T>
void forward(const ConvolutionShape& shape, const T* input, const T* weight, const T* bias,
             const ConvolutionOutput<T>& output) {
  if (shape.depthwise) {
    return with_lanes(shape,
                      [&](auto lanes) { depthwise_forward<lanes>(shape, input, weight, bias, output); });
  }
  const ConvolutionMethod method = method_of(shape);
  const WeightMatrix matrix = weight_by_filters(shape);
  if (method != ConvolutionMethod::places)
    return convolve(shape, method, input, weight, matrix, bias, output);
  with_lanes(shape, [&](auto lanes) {
    convolve_places<T, lanes>(shape, output_from_input(shape), input, weight, matrix, bias, output);
  });
}

template <class T>
void input_gradient(const ConvolutionShape& shape, const T* gradient, const T* weight, T* input_gradient) {
  if (shape.depthwise) {
    return with_lanes(
        shape, [&](auto lanes) { depthwise_input_gradient<lanes>(shape, gradient, weight, input_gradient); });
  }
  const ConvolutionMethod method = method_of(shape);
  if (method == ConvolutionMethod::winograd && TileGrid(shape).count() < TileGrid(reversed(shape)).count()) {
    return with_lanes(shape, [&](auto lanes) {
      if (shape.kernel_height == 3)
        return winograd_input_gradient<T, lanes, 3>(shape, gradient, weight, input_gradient);
      winograd_input_gradient<T, lanes, 5>(shape, gradient, weight, input_gradient);
    });
  }
  const T* no_bias = nullptr;
  const ConvolutionOutput<T> output{input_gradient, shape.channels};
  if (method != ConvolutionMethod::places && !shape.is_strided()) {
    return convolve(reversed(shape), method, gradient, weight, reversed_weight(shape), no_bias, output);
  }
  with_lanes(shape, [&](auto lanes) {
    convolve_places<T, lanes>(shape, input_from_output(shape), gradient, weight, weight_by_channels(shape),
                              no_bias, output);
  });
}

template <class T, int kLanes, int kKernel>
void winograd_node_gradient(const ConvolutionShape& shape, const T* gradient, const T* input,
                            const WeightGradients& target) {
  const int64_t most = shards_by_blocks(shape, side_of(kKernel) * side_of(kKernel));
  if (most == 1) return winograd_weight_gradient<T, kLanes, kKernel>(shape, gradient, input, target);
  sum_nodes(shape, most, gradient, input, target,
            [](const ConvolutionShape& own, const T* own_gradient, const T* own_input,
               const WeightGradients& own_target) {
              if (own.shards == 1)
                return winograd_weight_gradient<T, kLanes, kKernel>(own, own_gradient, own_input, own_target);
              const BlockedWeightGradient<T, kLanes, kKernel> blocks(own, own_gradient, own_input);
              blocks.write_weight(own_target.weight);
              if (own_target.bias != nullptr) blocks.write_bias(own_target.bias);
            });
}

template <class T>
void weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input, float* weight_gradient,
                     float* bias_gradient) {
  const WeightGradients target{weight_gradient, bias_gradient};
  with_lanes(shape, [&](auto lanes) {
    const ConvolutionMethod method = method_of(shape);
    if (shape.depthwise) {
      depthwise_weight_gradient<lanes>(shape, gradient, input, target);
    } else if (method == ConvolutionMethod::places) {
      weight_gradient_of_places<T, lanes>(shape, gradient, input, weight_gradient, bias_gradient);
    } else if (is_pointwise(shape) && has_few_places(shape)) {
      pointwise_weight_gradient_by_tiles<T, lanes>(shape, gradient, input, target);
    } else if (is_pointwise(shape)) {
      sum_nodes(shape, 1, gradient, input, target, &pointwise_weight_gradient<T, lanes>);
    } else if (method == ConvolutionMethod::direct) {
      sum_nodes(shape, 1, gradient, input, target, &direct_weight_gradient<T, lanes>);
    } else if (shape.kernel_height == 3) {
      winograd_node_gradient<T, lanes, 3>(shape, gradient, input, target);
    } else {
      winograd_node_gradient<T, lanes, 5>(shape, gradient, input, target);
    }
  });
}

template <class T>
constexpr ConvolutionKernels<T> kKernels{&forward<T>, &input_gradient<T>, &weight_gradient<T>};

}  // namespace

const ConvolutionKernels<float>& LOCKSTEP_CONVOLUTION_KERNELS(float) { return kKernels<float>; }
const ConvolutionKernels<BFloat16>& LOCKSTEP_CONVOLUTION_KERNELS(BFloat16) { return kKernels<BFloat16>; }

}  // namespace lockstep::kernels
