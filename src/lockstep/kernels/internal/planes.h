// Images and weights in the form that the convolution kernels need: floats, with zeros around them.
#pragma once

#include <limits>
#include <type_traits>

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/vectors.h"

namespace lockstep::kernels {
namespace {

/// An image with a border: [height, width, stride] floats.
struct Plane {
  float* data;
  int64_t height;
  int64_t width;
  int64_t stride;

  int64_t size() const { return height * width * stride; }
  int64_t row() const { return width * stride; }
};

struct PlaneSize {
  int64_t height;
  int64_t width;
  int64_t channels;

  int64_t size() const { return height * width * channels; }
};

/// How results are written: the numbers between neighbouring places, and the smallest value; smaller results
/// become `least`.
struct OutputRule {
  int64_t column;
  int64_t row;
  float least;

  template <class T>
  OutputRule(const ConvolutionOutput<T>& output, int64_t column_places, int64_t row_places)
      : column(column_places * output.step),
        row(row_places * output.step),
        least(output.relu ? 0.0F : -std::numeric_limits<float>::infinity()) {}
};

inline void clear(float* values, int64_t count) {
  std::memset(values, 0, static_cast<size_t>(count) * sizeof(float));
}

/// Copies an image into the plane at (top, left). The rest of the plane must be zero and is not written.
template <int kLanes, class T>
inline void fill(const Plane& plane, const T* image, const PlaneSize& size, int64_t top, int64_t left) {
  for (int64_t y = 0; y < size.height; ++y) {
    float* target = plane.data + (y + top) * plane.row() + left * plane.stride;
    const T* source = image + y * size.width * size.channels;
    if (plane.stride == size.channels) {
      copy_values<kLanes>(source, size.width * size.channels, target);
      continue;
    }
    for (int64_t x = 0; x < size.width; ++x) {
      int64_t c = 0;
      for (; c + kLanes <= size.channels; c += kLanes) store<kLanes>(load<kLanes>(source + c), target + c);
      if (c < size.channels) store<kLanes>(load_some<kLanes>(source + c, size.channels - c), target + c);
      source += size.channels;
      target += plane.stride;
    }
  }
}

/// An image with a border, [height][4][groups, channels]: each row has first the columns 0, 4, 8, ..., then
/// 1, 5, 9, ... Neighbouring tiles are four columns apart, so the floats at the same position of neighbouring
/// tiles are contiguous.
struct ColumnGroups {
  static constexpr int64_t kEvery = 4;

  float* data;
  int64_t height;
  int64_t groups;
  int64_t channels;

  /// After the channels of the last column of a line, there is room to read and write a whole vector.
  int64_t line() const { return groups * channels + kWidest; }
  int64_t row() const { return kEvery * line(); }
  int64_t size() const { return height * row(); }
  int64_t offset(int64_t y, int64_t x) const {
    return y * row() + x % kEvery * line() + x / kEvery * channels;
  }
  float* place(int64_t y, int64_t x) const { return data + offset(y, x); }
};

/// Calls work(lanes) for the channels of a place after its whole vectors. lanes: of a narrower vector if the
/// channels fill it, which needs fewer cache lines than a part of a wide vector; otherwise kLanes, of which a
/// part is read and written; 0 if there are no such channels.
template <int kLanes, class Work>
inline void with_rest(int64_t channels, Work&& work) {
  if (channels == 0) return work(std::integral_constant<int, 0>{});
  if constexpr (kLanes == 16) {
    if (channels == 8) return work(std::integral_constant<int, 8>{});
  }
  if constexpr (kLanes > 4) {
    if (channels == 4) return work(std::integral_constant<int, 4>{});
  }
  work(std::integral_constant<int, kLanes>{});
}

/// Copies a row of an image into row y of the groups, beginning at column `left`. The columns on both sides
/// must be zero and are not written.
template <int kLanes, class T>
inline void fill_row(const ColumnGroups& groups, const T* row, const PlaneSize& size, int64_t y,
                     int64_t left) {
  constexpr int64_t kEvery = ColumnGroups::kEvery;
  const int64_t whole = size.channels / kLanes * kLanes;
  const int64_t rest = size.channels - whole;
  with_rest<kLanes>(rest, [&](auto narrow) {
    for (int64_t first = 0; first < smaller(kEvery, size.width); ++first) {
      const T* source = row + first * size.channels;
      float* target = groups.place(y, first + left);
      for (int64_t x = first; x < size.width;
           x += kEvery, source += kEvery * size.channels, target += size.channels) {
        __builtin_prefetch(source + 2 * size.width * size.channels, 0,
                           2);  // two rows ahead: the processor does not prefetch every fourth column
        for (int64_t c = 0; c < whole; c += kLanes) store<kLanes>(load<kLanes>(source + c), target + c);
        if constexpr (narrow == kLanes) {
          store<kLanes>(load_some<kLanes>(source + whole, rest), target + whole);
        } else if constexpr (narrow > 0) {
          store<narrow>(load<narrow>(source + whole), target + whole);
        }
      }
    }
  });
}

/// Copies the image at (top, left) from the groups.
template <int kLanes, class T>
inline void copy_out(const ColumnGroups& groups, const PlaneSize& size, int64_t top, int64_t left, T* image) {
  const int64_t whole = size.channels / kLanes * kLanes;
  const int64_t rest = size.channels - whole;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x, image += size.channels) {
      const float* source = groups.place(y + top, x + left);
      for (int64_t c = 0; c < whole; c += kLanes) store<kLanes>(load<kLanes>(source + c), image + c);
      if (rest > 0) store_some<kLanes>(load<kLanes>(source + whole), image + whole, rest);
    }
  }
}

/// Weights as a matrix [depth, lanes] per tap of the kernel, and their positions in the weight tensor.
struct WeightMatrix {
  int64_t taps;
  int64_t depth;
  int64_t lanes;
  int64_t depth_stride;
  int64_t lane_stride;
  int64_t tap_stride;
  bool flipped;

  int64_t place(int64_t tap, int64_t d, int64_t lane) const {
    return d * depth_stride + lane * lane_stride + (flipped ? taps - 1 - tap : tap) * tap_stride;
  }
};

/// The matrix from channels to filters, with filters as lanes.
inline WeightMatrix weight_by_filters(const ConvolutionShape& shape) {
  const int64_t taps = shape.kernel_height * shape.kernel_width;
  const bool last = shape.weight_channels_last;
  return {
      taps, shape.channels, shape.filters, last ? 1 : taps, shape.channels * taps, last ? shape.channels : 1,
      false};
}

/// The same weights with channels as lanes.
inline WeightMatrix weight_by_channels(const ConvolutionShape& shape) {
  const WeightMatrix weight = weight_by_filters(shape);
  return {weight.taps,         weight.lanes,      weight.depth, weight.lane_stride,
          weight.depth_stride, weight.tap_stride, false};
}

/// Visits (position in [taps, depth, padded lanes], position in the weight tensor), in an order that uses the
/// cache well.
template <class Visit>
inline void each_weight(const WeightMatrix& matrix, int64_t padded, Visit&& visit) {
  constexpr int64_t kBlock = 16;
  for (int64_t begin = 0; begin < matrix.lanes; begin += kBlock) {
    const int64_t end = smaller(begin + kBlock, matrix.lanes);
    for (int64_t d = 0; d < matrix.depth; ++d) {
      for (int64_t tap = 0; tap < matrix.taps; ++tap) {
        for (int64_t lane = begin; lane < end; ++lane)
          visit((tap * matrix.depth + d) * padded + lane, matrix.place(tap, d, lane));
      }
    }
  }
}

/// packed [taps, depth, padded lanes], zero beyond the lanes.
template <class T>
inline void pack_weights(const WeightMatrix& matrix, const T* weight, int64_t padded, float* packed) {
  if (padded != matrix.lanes) clear(packed, matrix.taps * matrix.depth * padded);
  each_weight(matrix, padded,
              [&](int64_t place, int64_t source) { packed[place] = to_float(weight[source]); });
}

inline void unpack_weights(const WeightMatrix& matrix, const float* packed, int64_t padded, float* weight) {
  each_weight(matrix, padded, [&](int64_t place, int64_t target) { weight[target] = packed[place]; });
}

/// bias [padded], zero beyond `count`, and zero if `bias` is null
template <class T>
inline void pack_bias(const T* bias, int64_t count, int64_t padded, float* packed) {
  clear(packed, padded);
  for (int64_t i = 0; bias != nullptr && i < count; ++i) packed[i] = to_float(bias[i]);
}

/// sum[0 .. kLanes) += the sum of `rows` vectors, `stride` floats apart
template <int kLanes>
inline void add_rows(const float* values, int64_t rows, int64_t stride, float* sum) {
  Vector<kLanes> total{};
  for (int64_t row = 0; row < rows; ++row) total += load<kLanes>(values + row * stride);
  store<kLanes>(load<kLanes>(sum) + total, sum);
}

}  // namespace
}  // namespace lockstep::kernels
