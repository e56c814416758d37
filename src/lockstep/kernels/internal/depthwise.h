// Convolutions in which each channel has a filter of its own (ConvolutionShape::depthwise). There is little
// to multiply for each number that is read, so all that matters is that neighbouring channels are read in
// order.
#pragma once

#include <limits>

#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/pointwise.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

/// In one dimension: the places of the source that belong to one place of the result, and those of the kernel
/// that connect them.
struct Taps {
  int64_t count;
  int64_t source;       // the first one
  int64_t source_step;  // 1 or -1
  int64_t kernel;
  int64_t kernel_step;
};

/// Of a place of the output; the source is the input.
inline Taps taps_of_output(int64_t place, int64_t size, int64_t kernel, int64_t padding, int64_t stride) {
  const int64_t begin = place * stride - padding;
  const int64_t first = larger(0, -begin);
  return {larger(0, smaller(kernel, size - begin) - first), begin + first, 1, first, 1};
}

/// Of a place of the input; the source is the output, of `size` places.
inline Taps taps_of_input(int64_t place, int64_t size, int64_t kernel, int64_t padding, int64_t stride) {
  const int64_t end = place + padding;  // the place of the kernel that output 0 has here
  const int64_t least = larger(0, end - (size - 1) * stride);
  const int64_t first = least + (end - least) % stride;
  const int64_t last = smaller(kernel - 1, end);
  return {last < first ? 0 : (last - first) / stride + 1, (end - first) / stride, -1, first, stride};
}

/// Images of channels that are neighbours in memory, some places apart.
template <class T>
struct ChannelImages {
  T* data;
  int64_t height;
  int64_t width;
  int64_t step;  // between places

  T* place(int64_t image, int64_t y, int64_t x) const {
    return data + ((image * height + y) * width + x) * step;
  }
};

/// Calls work(vectors, channel) for blocks of the channels, with the number of vectors as a compile-time
/// constant. Only a block of one vector may have channels beyond the last one.
template <int kLanes, class Work>
inline void over_channels(int64_t channels, const Work& work) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes) work(std::integral_constant<int, 4>{}, c);
  if (c + 2 * kLanes <= channels) {
    work(std::integral_constant<int, 2>{}, c);
    c += 2 * kLanes;
  }
  for (; c < channels; c += kLanes) work(std::integral_constant<int, 1>{}, c);
}

/// kVectors vectors of channels of one place of the result. `left`: the channels that there are.
template <int kLanes, int kVectors, class T>
inline void sum_taps(const T* source, int64_t row_step, int64_t column_step, const float* weights,
                     int64_t weight_row_step, int64_t weight_column_step, int64_t rows, int64_t columns,
                     const float* bias, float least, T* target, int64_t left) {
  Vector<kLanes> sums[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sums[v] = load<kLanes>(bias + v * kLanes);
  for (int64_t row = 0; row < rows; ++row) {
    const T* values = source + row * row_step;
    const float* factors = weights + row * weight_row_step;
    for (int64_t column = 0; column < columns; ++column) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const T* part = values + v * kLanes;
        const Vector<kLanes> value =
            kVectors > 1 || left >= kLanes ? load<kLanes>(part) : load_some<kLanes>(part, left);
        sums[v] = multiply_add(value, load<kLanes>(factors + v * kLanes), sums[v]);
      }
      values += column_step;
      factors += weight_column_step;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const Vector<kLanes> sum = at_least(sums[v], splat<kLanes>(least));
    kVectors > 1 || left >= kLanes ? store<kLanes>(sum, target + v * kLanes)
                                   : store_some<kLanes>(sum, target, left);
  }
}

/// The weight [channels, taps] as [taps, padded], zero beyond the channels.
template <class T>
inline void turn_depthwise_weight(const T* weight, int64_t channels, int64_t taps, int64_t padded,
                                  float* turned) {
  clear(turned, taps * padded);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t tap = 0; tap < taps; ++tap) turned[tap * padded + c] = to_float(weight[c * taps + tap]);
  }
}

/// Every place of the result, from the taps that rows(y) and columns(x) say.
template <int kLanes, class T, class RowTaps, class ColumnTaps>
void depthwise_convolution(const ConvolutionShape& shape, const ChannelImages<const T>& source,
                           const T* weight, const T* bias, const ChannelImages<T>& result, float least,
                           const RowTaps& row_taps, const ColumnTaps& column_taps) {
  const int64_t channels = shape.channels, taps = shape.kernel_height * shape.kernel_width;
  const int64_t padded = divided_up(channels, kLanes) * kLanes;
  Workspace workspace;
  float* weights = workspace.take(taps * padded);
  float* packed_bias = workspace.take(padded);
  turn_depthwise_weight(weight, channels, taps, padded, weights);
  pack_bias(bias, channels, padded, packed_bias);
  for (int64_t image = 0; image < shape.batch; ++image) {
    for (int64_t y = 0; y < result.height; ++y) {
      const Taps rows = row_taps(y);
      fetch<kToWrite>(result.place(image, y + 1, 0), result.width * result.step);
      for (int64_t x = 0; x < result.width; ++x) {
        const Taps columns = column_taps(x);
        const T* from = source.place(image, rows.source, columns.source);
        const float* factors = weights + (rows.kernel * shape.kernel_width + columns.kernel) * padded;
        T* to = result.place(image, y, x);
        const auto sum = [&](auto vectors, int64_t c) {
          sum_taps<kLanes, vectors>(
              from + c, rows.source_step * source.width * source.step, columns.source_step * source.step,
              factors + c, rows.kernel_step * shape.kernel_width * padded, columns.kernel_step * padded,
              rows.count, columns.count, packed_bias + c, least, to + c, channels - c);
        };
        over_channels<kLanes>(channels, sum);
      }
    }
  }
}

template <int kLanes, class T>
void depthwise_forward(const ConvolutionShape& shape, const T* input, const T* weight, const T* bias,
                       const ConvolutionOutput<T>& output) {
  const ChannelImages<const T> source{input, shape.height, shape.width, shape.channels};
  const ChannelImages<T> result{output.data, shape.output_height(), shape.output_width(), output.step};
  depthwise_convolution<kLanes, T>(
      shape, source, weight, bias, result, output.relu ? 0.0F : -std::numeric_limits<float>::infinity(),
      [&](int64_t y) {
        return taps_of_output(y, shape.height, shape.kernel_height, shape.padding_height,
                              shape.stride_height);
      },
      [&](int64_t x) {
        return taps_of_output(x, shape.width, shape.kernel_width, shape.padding_width, shape.stride_width);
      });
}

template <int kLanes, class T>
void depthwise_input_gradient(const ConvolutionShape& shape, const T* gradient, const T* weight,
                              T* input_gradient) {
  const ChannelImages<const T> source{gradient, shape.output_height(), shape.output_width(), shape.channels};
  const ChannelImages<T> result{input_gradient, shape.height, shape.width, shape.channels};
  const T* no_bias = nullptr;
  depthwise_convolution<kLanes, T>(
      shape, source, weight, no_bias, result, -std::numeric_limits<float>::infinity(),
      [&](int64_t y) {
        return taps_of_input(y, source.height, shape.kernel_height, shape.padding_height,
                             shape.stride_height);
      },
      [&](int64_t x) {
        return taps_of_input(x, source.width, shape.kernel_width, shape.padding_width, shape.stride_width);
      });
}

/// sums[v] += the products of `count` places, for kVectors vectors of channels from one on.
template <int kLanes, int kVectors, class T>
inline void add_place_products(const T* gradient, int64_t gradient_step, const T* input, int64_t input_step,
                               int64_t count, float* sums, int64_t left) {
  Vector<kLanes> own[kVectors] = {};
  const auto part = [&](const T* values) {
    return kVectors > 1 || left >= kLanes ? load<kLanes>(values) : load_some<kLanes>(values, left);
  };
  for (int64_t place = 0; place < count; ++place, gradient += gradient_step, input += input_step) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      own[v] = multiply_add(part(gradient + v * kLanes), part(input + v * kLanes), own[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v)
    store<kLanes>(load<kLanes>(sums + v * kLanes) + own[v], sums + v * kLanes);
}

/// The outputs [first, last) of one dimension whose tap `tap` is in the input.
inline Range outputs_of_tap(int64_t tap, int64_t size, int64_t outputs, int64_t padding, int64_t stride) {
  const int64_t first = larger(0, divided_up(padding - tap, stride));
  const int64_t last =
      size + padding - tap <= 0 ? 0 : smaller(outputs, divided_up(size + padding - tap, stride));
  return {first, larger(first, last)};
}

/// Of one image: sums [taps, padded] of the weight.
template <int kLanes, class T>
void add_depthwise_image(const ConvolutionShape& shape, const T* gradient, const T* input, int64_t padded,
                         float* sums) {
  const int64_t channels = shape.channels, width = shape.output_width();
  for (int64_t y = 0; y < shape.output_height(); ++y) {
    const Taps rows =
        taps_of_output(y, shape.height, shape.kernel_height, shape.padding_height, shape.stride_height);
    fetch(gradient + (y + 1) * width * channels, width * channels);
    fetch(input + (rows.source + rows.count) * shape.width * channels,
          shape.stride_height * shape.width * channels);
    const auto add = [&](auto vectors, int64_t c) {
      for (int64_t row = 0; row < rows.count; ++row) {
        for (int64_t tap = 0; tap < shape.kernel_width; ++tap) {
          const Range outputs =
              outputs_of_tap(tap, shape.width, width, shape.padding_width, shape.stride_width);
          const int64_t place = outputs.begin * shape.stride_width - shape.padding_width + tap;
          add_place_products<kLanes, vectors>(
              gradient + (y * width + outputs.begin) * channels + c, channels,
              input + ((rows.source + row) * shape.width + place) * channels + c,
              shape.stride_width * channels, outputs.end - outputs.begin,
              sums + ((rows.kernel + row) * shape.kernel_width + tap) * padded + c, channels - c);
        }
      }
    };
    over_channels<kLanes>(channels, add);
  }
}

template <int kLanes, class T>
void depthwise_weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input,
                               const WeightGradients& target) {
  const int64_t channels = shape.channels, taps = shape.kernel_height * shape.kernel_width;
  const int64_t padded = divided_up(channels, kLanes) * kLanes;
  const int64_t outputs = shape.output_height() * shape.output_width();
  const int64_t of_shard = shape.batch / shape.shards;
  Workspace workspace;
  float* sums = workspace.take((taps + 1) * padded);  // the last row is the bias's
  sum_shards(0, shape.shards, (taps + 1) * padded, sums, [&](int64_t shard, float* own) {
    clear(own, (taps + 1) * padded);
    for (int64_t image = shard * of_shard; image < (shard + 1) * of_shard; ++image) {
      const T* of_image = gradient + image * outputs * channels;
      add_depthwise_image<kLanes>(shape, of_image, input + image * shape.height * shape.width * channels,
                                  padded, own);
      for (int64_t c = 0; target.bias != nullptr && c < channels; ++c) {
        for (int64_t place = 0; place < outputs; ++place)
          own[taps * padded + c] += to_float(of_image[place * channels + c]);
      }
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t tap = 0; tap < taps; ++tap) target.weight[c * taps + tap] = sums[tap * padded + c];
  }
  if (target.bias != nullptr) copy_values<kLanes>(sums + taps * padded, channels, target.bias);
}

}  // namespace
}  // namespace lockstep::kernels
