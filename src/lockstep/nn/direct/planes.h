// Pictures and weights as the convolution kernels want them: floats, with zeros around.
#pragma once

#include "lockstep/nn/direct/vectors.h"

namespace lockstep::nn::direct {
namespace {

/// A picture with a border: [height, width, stride] floats.
struct Plane {
  float* data;
  int64_t height;
  int64_t width;
  int64_t stride;

  int64_t size() const { return height * width * stride; }
  int64_t row() const { return width * stride; }
};

struct PictureSize {
  int64_t height;
  int64_t width;
  int64_t channels;

  int64_t size() const { return height * width * channels; }
};

inline void clear(float* values, int64_t count) { std::memset(values, 0, static_cast<size_t>(count) * sizeof(float)); }

/// Puts a picture into the plane at (top, left); what lies around must be zero already and stays so.
template <int kLanes, class T>
inline void fill(const Plane& plane, const T* picture, const PictureSize& size, int64_t top, int64_t left) {
  for (int64_t y = 0; y < size.height; ++y) {
    float* target = plane.data + (y + top) * plane.row() + left * plane.stride;
    const T* source = picture + y * size.width * size.channels;
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

/// A picture with a border as planes of kLanes channels each: [count, height, width, kLanes].
template <int kLanes>
struct VectorPlanes {
  float* data;
  int64_t count;
  int64_t height;
  int64_t width;

  int64_t size() const { return height * width * kLanes; }
};

template <int kLanes, class T>
inline void fill(const VectorPlanes<kLanes>& planes, const T* picture, const PictureSize& size, int64_t top, int64_t left) {
  for (int64_t y = 0; y < size.height; ++y) {
    const T* row = picture + y * size.width * size.channels;
    float* target_row = planes.data + ((y + top) * planes.width + left) * kLanes;
    for (int64_t c = 0; c < size.channels; c += kLanes, target_row += planes.size()) {
      const T* source = row + c;
      float* target = target_row;
      const int64_t count = size.channels - c;
      if (count >= kLanes) {
        for (int64_t x = 0; x < size.width; ++x, source += size.channels, target += kLanes) store<kLanes>(load<kLanes>(source), target);
      } else {
        for (int64_t x = 0; x < size.width; ++x, source += size.channels, target += kLanes) store<kLanes>(load_some<kLanes>(source, count), target);
      }
    }
  }
}

/// The inverse of fill: the picture at (top, left) of the planes.
template <int kLanes, class T>
inline void copy_out(const VectorPlanes<kLanes>& planes, const PictureSize& size, int64_t top, int64_t left, T* picture) {
  for (int64_t y = 0; y < size.height; ++y) {
    const float* source_row = planes.data + ((y + top) * planes.width + left) * kLanes;
    for (int64_t c = 0; c < size.channels; c += kLanes, source_row += planes.size()) {
      const float* source = source_row;
      T* target = picture + y * size.width * size.channels + c;
      const int64_t count = size.channels - c;
      if (count >= kLanes) {
        for (int64_t x = 0; x < size.width; ++x, source += kLanes, target += size.channels) store<kLanes>(load<kLanes>(source), target);
      } else {
        for (int64_t x = 0; x < size.width; ++x, source += kLanes, target += size.channels) store_some<kLanes>(load<kLanes>(source), target, count);
      }
    }
  }
}

/// Weights as a matrix [depth, lanes] per tap of the kernel, and where they lie in the weight tensor.
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
  return {taps, shape.channels, shape.filters, last ? 1 : taps, shape.channels * taps, last ? shape.channels : 1, false};
}

/// The same weights with channels as lanes.
inline WeightMatrix weight_by_channels(const ConvolutionShape& shape) {
  const WeightMatrix weight = weight_by_filters(shape);
  return {weight.taps, weight.lanes, weight.depth, weight.lane_stride, weight.depth_stride, weight.tap_stride, false};
}

/// Visits (place in [taps, depth, padded lanes], place in the weight tensor), in an order that is kind to the cache.
template <class Visit>
inline void each_weight(const WeightMatrix& matrix, int64_t padded, Visit&& visit) {
  constexpr int64_t kBlock = 16;
  for (int64_t begin = 0; begin < matrix.lanes; begin += kBlock) {
    const int64_t end = smaller(begin + kBlock, matrix.lanes);
    for (int64_t d = 0; d < matrix.depth; ++d) {
      for (int64_t tap = 0; tap < matrix.taps; ++tap) {
        for (int64_t lane = begin; lane < end; ++lane) visit((tap * matrix.depth + d) * padded + lane, matrix.place(tap, d, lane));
      }
    }
  }
}

/// packed [taps, depth, padded lanes], zero beyond the lanes.
template <class T>
inline void pack_weights(const WeightMatrix& matrix, const T* weight, int64_t padded, float* packed) {
  if (padded != matrix.lanes) clear(packed, matrix.taps * matrix.depth * padded);
  each_weight(matrix, padded, [&](int64_t place, int64_t source) { packed[place] = to_float(weight[source]); });
}

inline void unpack_weights(const WeightMatrix& matrix, const float* packed, int64_t padded, float* weight) {
  each_weight(matrix, padded, [&](int64_t place, int64_t target) { weight[target] = packed[place]; });
}

/// bias [padded], zero beyond `count` or when null
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
}  // namespace lockstep::nn::direct
