// What the linear kernels share: tiles of sums in registers, and passes that do not multiply.
#pragma once

#include <type_traits>
#include <utility>

#include "lockstep/base/share.h"
#include "lockstep/kernels/linear_kernels.h"
#include "lockstep/kernels/internal/vectors.h"

namespace lockstep::kernels {
namespace {

using Wide = Vector<kWidest>;
// The sizes of a tile of sums that stays in registers.
constexpr int kRows = kManyRegisters ? 8 : 4;
constexpr int kVectors = 3;
constexpr int kDots = 4;  // rows and columns of a tile of dot products

template <int... kCounts, class Work>
void with_count(int64_t count, Work&& work, std::integer_sequence<int, kCounts...>) {
  (void)((count == kCounts + 1 && (work(std::integral_constant<int, kCounts + 1>{}), true)) || ...);
}

/// Calls work(begin, size) over [0, count) in parts of kTile, with the size as a compile-time constant.
template <int kTile, class Work>
void in_tiles(int64_t count, Work&& work) {
  for (int64_t begin = 0; begin < count; begin += kTile) {
    with_count(
        smaller(kTile, count - begin), [&](auto size) { work(begin, size); },
        std::make_integer_sequence<int, kTile>{});
  }
}

/// Adds the halves of a vector repeatedly, down to four numbers.
inline Vector<4> four_sums(Vector<4> value) { return value; }
inline Vector<4> four_sums(Vector<8> value) {
  return __builtin_shufflevector(value, value, 0, 1, 2, 3) +
         __builtin_shufflevector(value, value, 4, 5, 6, 7);
}
inline Vector<4> four_sums(Vector<16> value) {
  return four_sums(__builtin_shufflevector(value, value, 0, 1, 2, 3, 4, 5, 6, 7) +
                   __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15));
}

inline float sum_of(Wide values) {
  const Vector<4> four = four_sums(values);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

/// The sums of four vectors, as four numbers.
inline Vector<4> sums_of(const Wide* values) {
  const Vector<4> a = four_sums(values[0]), b = four_sums(values[1]), c = four_sums(values[2]),
                  d = four_sums(values[3]);
  const Vector<4> left =
      __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector<4> right =
      __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(left, right, 0, 1, 4, 5) + __builtin_shufflevector(left, right, 2, 3, 6, 7);
}

/// Calls work(place, count) for whole vectors of the features, then for the rest.
template <class Work>
void over_features(int64_t features, Work&& work) {
  int64_t place = 0;
  for (; place + kWidest <= features; place += kWidest) work(place, std::integral_constant<int, kWidest>{});
  if (place < features) work(place, features - place);
}

template <class T, class Count>
inline Wide load_part(const T* source, Count count) {
  if constexpr (std::is_same_v<Count, std::integral_constant<int, kWidest>>) {
    return load<kWidest>(source);
  } else {
    return load_some<kWidest>(source, count);
  }
}

template <class T, class Count>
inline void store_part(Wide value, T* target, Count count) {
  if constexpr (std::is_same_v<Count, std::integral_constant<int, kWidest>>) {
    store<kWidest>(value, target);
  } else {
    store_some<kWidest>(value, target, count);
  }
}

/// Calls work(place, vectors, count) for strips of kVectors whole vectors of the features, then for single
/// vectors, then for the rest.
template <class Work>
void over_strips(int64_t features, Work&& work) {
  constexpr int64_t kStrip = kVectors * kWidest;
  const int64_t strips = features / kStrip * kStrip;
  for (int64_t place = 0; place < strips; place += kStrip)
    work(place, std::integral_constant<int, kVectors>{}, std::integral_constant<int, kWidest>{});
  over_features(features - strips, [&](int64_t place, auto count) {
    work(strips + place, std::integral_constant<int, 1>{}, count);
  });
}

template <int kTileRows, int kTileVectors>
struct Sums {
  Wide values[kTileRows][kTileVectors];

  /// values[i][v] += left[i * stride] * right[v]
  template <class T, class Count>
  void add(const T* left, int64_t stride, const T* right, Count count) {
    Wide parts[kTileVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kTileVectors; ++v) parts[v] = load_part(right + v * kWidest, count);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const Wide factor = splat<kWidest>(to_float(left[i * stride]));
#pragma GCC unroll 3
      for (int v = 0; v < kTileVectors; ++v) values[i][v] = multiply_add(factor, parts[v], values[i][v]);
    }
  }

  Sums& operator+=(const Sums& other) {
    for (int i = 0; i < kTileRows; ++i) {
      for (int v = 0; v < kTileVectors; ++v) values[i][v] += other.values[i][v];
    }
    return *this;
  }

  template <class T, class Count>
  void read(const T* source, int64_t stride, Count count) {
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
      for (int v = 0; v < kTileVectors; ++v)
        values[i][v] = load_part(source + i * stride + v * kWidest, count);
    }
  }

  template <bool kAdd = false, class T, class Count>
  void write(T* target, int64_t stride, Count count) const {
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
      for (int v = 0; v < kTileVectors; ++v) {
        T* part = target + i * stride + v * kWidest;
        store_part(kAdd ? load_part(part, count) + values[i][v] : values[i][v], part, count);
      }
    }
  }
};

/// Prefetches these rows of the strip on the right. Rows are so far apart that the processor does not detect
/// their order.
template <bool kWrite, int kTileRows, int kTileVectors, class T>
inline void fetch_next_strip(const T* strip, int64_t stride) {
  for (int i = 0; i < kTileRows; ++i) {
    for (int v = 0; v < kTileVectors; ++v)
      __builtin_prefetch(strip + i * stride + (kTileVectors + v) * kWidest, kWrite);
  }
}

constexpr int64_t kFeaturesOfBlock = 8 * kVectors * kWidest;
constexpr int64_t kOutputsOfBlock = 256;

/// Calls work(begin, count) for blocks of the features, so small that their part of the rows stays in a cache
/// while it is read repeatedly.
template <class Work>
void over_blocks(int64_t features, Work&& work) {
  for (int64_t begin = 0; begin < features; begin += kFeaturesOfBlock)
    work(begin, smaller(kFeaturesOfBlock, features - begin));
}

template <class T>
void linear_bias_gradient(const LinearShape& shape, const T* gradient, float* bias_gradient) {
  const int64_t samples = shape.batch / shape.shards;
  for (int64_t k = 0; k < shape.outputs; ++k) {
    bias_gradient[k] = tree_sum(0, shape.shards, [&](int64_t shard) {
      float sum = 0;
      for (int64_t n = shard * samples; n < (shard + 1) * samples; ++n)
        sum += to_float(gradient[n * shape.outputs + k]);
      return sum;
    });
  }
}

/// result[column][row] = source[row][column] for a square of numbers, which are only copied.
template <int kSide, class T>
inline void copy_turned(const T* source, int64_t columns, T* result, int64_t rows) {
  using Number = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  typedef Number Row __attribute__((vector_size(kSide * sizeof(Number))));
  Row square[kSide];
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i) square[i] = load_bytes<Row>(source + i * columns);
  transpose_square(square);
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i) std::memcpy(result + i * rows, &square[i], sizeof(Row));
}

/// The columns [first, last) of a matrix, in squares of kSide and then smaller squares.
template <int kSide, class T>
void transpose_columns(const T* matrix, int64_t rows, int64_t columns, int64_t first, int64_t last,
                       T* result) {
  if constexpr (kSide == 1) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = first; column < last; ++column)
        result[column * rows + row] = matrix[row * columns + column];
    }
  } else {
    for (; first + kSide <= last; first += kSide) {
      int64_t row = 0;
      for (; row + kSide <= rows; row += kSide)
        copy_turned<kSide>(matrix + row * columns + first, columns, result + first * rows + row, rows);
      for (; row < rows; ++row) {
        for (int64_t i = 0; i < kSide; ++i)
          result[(first + i) * rows + row] = matrix[row * columns + first + i];
      }
    }
    transpose_columns<kSide == 4 ? 1 : 4>(matrix, rows, columns, first, last, result);
  }
}

template <class T>
void transpose(const T* matrices, int64_t count, int64_t rows, int64_t columns, T* result) {
  for (int64_t i = 0; i < count; ++i)
    transpose_columns<kWidest>(matrices + i * rows * columns, rows, columns, 0, columns,
                               result + i * rows * columns);
}

}  // namespace
}  // namespace lockstep::kernels
