// Matrix products whose results stay in registers: the inner loops of the convolution kernels.
#pragma once

#include <type_traits>

#include "lockstep/kernels/internal/planes.h"

namespace lockstep::kernels {
namespace {

constexpr int kTileRows = kManyRegisters ? 8 : 4;
constexpr int kTileVectors = 3;

/// Divides the vectors of a row into as few tiles as possible, of nearly equal width.
struct Panels {
  int64_t vectors;

  int64_t count() const { return divided_up(vectors, kTileVectors); }
  int64_t begin(int64_t panel) const { return vectors * panel / count(); }
  int64_t width(int64_t panel) const { return begin(panel + 1) - begin(panel); }
};

/// Calls work(value) with the value, 1 to kTileRows, as a compile-time constant.
template <class Work>
inline void with_constant(int64_t value, Work&& work) {
  switch (value) {
    case 1:
      return work(std::integral_constant<int, 1>{});
    case 2:
      return work(std::integral_constant<int, 2>{});
    case 3:
      return work(std::integral_constant<int, 3>{});
    case 4:
      return work(std::integral_constant<int, 4>{});
    default:
      break;
  }
  if constexpr (kTileRows == 8) {
    switch (value) {
      case 5:
        return work(std::integral_constant<int, 5>{});
      case 6:
        return work(std::integral_constant<int, 6>{});
      case 7:
        return work(std::integral_constant<int, 7>{});
      case 8:
        return work(std::integral_constant<int, 8>{});
      default:
        break;
    }
  }
}

/// Calls work(begin, rows) for pieces of at most kTileRows rows, of nearly equal height; `rows` is a
/// compile-time constant.
template <class Work>
inline void each_row_block(int64_t rows, Work&& work) {
  const int64_t blocks = divided_up(rows, kTileRows);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = rows * block / blocks;
    with_constant(rows * (block + 1) / blocks - begin, [&](auto count) { work(begin, count); });
  }
}

template <class Work>
inline void with_width(int64_t width, Work&& work) {
  if (width == 3) return work(std::integral_constant<int, 3>{});
  if (width == 2) return work(std::integral_constant<int, 2>{});
  work(std::integral_constant<int, 1>{});
}

template <int kLanes, int kRows, int kVectors>
struct Tile {
  Vector<kLanes> values[kRows][kVectors];

  Tile& operator+=(const Tile& other) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) values[r][v] += other.values[r][v];
    }
    return *this;
  }
};

template <int kLanes, int kRows, int kVectors>
inline void copy_tile(const Tile<kLanes, kRows, kVectors>& from, Tile<kLanes, kRows, kVectors>& to) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) to.values[r][v] = from.values[r][v];
  }
}

/// Rows of numbers, in segments of `length` numbers each. Row r begins at data + r * row_stride.
struct Rows {
  const float* data;
  int64_t row_stride;
  int64_t segments;
  int64_t segment_stride;
  int64_t length;
};

/// Adds the products of `length` numbers of each row, and returns the next position in the panel.
template <int kLanes, int kRows, int kVectors>
inline const float* add_segment(const float* row, int64_t row_stride, int64_t length, const float* panel,
                                Tile<kLanes, kRows, kVectors>& tile) {
  // Of its own: g++ stores sums whose address others know in every step.
  Tile<kLanes, kRows, kVectors> sums;
  copy_tile(tile, sums);
  for (int64_t i = 0; i < length; ++i) {
    Vector<kLanes> right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) right[v] = load<kLanes>(panel + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector<kLanes> left = splat<kLanes>(row[r * row_stride + i]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums.values[r][v] = multiply_add(left, right[v], sums.values[r][v]);
    }
    panel += kVectors * kLanes;
  }
  copy_tile(sums, tile);
  return panel;
}

/// tile[r][v] = sum over i of rows[r][i] * panel[i][v]; panel is [segments * length, kVectors * kLanes].
template <int kLanes, int kRows, int kVectors>
inline Tile<kLanes, kRows, kVectors> multiply(const Rows& rows, const float* panel) {
  Tile<kLanes, kRows, kVectors> tile{};
  const float* row = rows.data;
  for (int64_t segment = 0; segment < rows.segments; ++segment, row += rows.segment_stride)
    panel = add_segment(row, rows.row_stride, rows.length, panel, tile);
  return tile;
}

template <int kLanes, int kRows, int kVectors>
inline void store_rows(const Tile<kLanes, kRows, kVectors>& tile, float* target, int64_t row_stride) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) store<kLanes>(tile.values[r][v], target + r * row_stride + v * kLanes);
  }
}

/// Stores a tile whose rows are places, one column of the rule apart. `filters`: their number from the tile's
/// first filter.
template <int kLanes, int kRows, int kVectors, class T>
inline void store_pixels(const Tile<kLanes, kRows, kVectors>& tile, const float* bias, T* target,
                         const OutputRule& rule, int64_t filters) {
  const Vector<kLanes> least = splat<kLanes>(rule.least);
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const Vector<kLanes> shift = load<kLanes>(bias + v * kLanes);
    const int64_t left = filters - v * kLanes;
    T* column = target + v * kLanes;
    if (left >= kLanes) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        store<kLanes>(at_least(tile.values[r][v] + shift, least), column + r * rule.column);
    } else {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        store_some<kLanes>(at_least(tile.values[r][v] + shift, least), column + r * rule.column, left);
    }
  }
}

/// Pairs of rows to be multiplied. Step s of segment g is at left + g * left_segment + s * left_step;
/// likewise on the right. The numbers of a step are contiguous on both sides.
struct Pairs {
  const float* left;
  int64_t left_segment;
  int64_t left_step;
  const float* right;
  int64_t right_segment;
  int64_t right_step;
  int64_t segments;
  int64_t steps;
};

/// tile[r][v] = sum over the steps of left[r] * right[v]
template <int kLanes, int kRows, int kVectors>
inline Tile<kLanes, kRows, kVectors> products_of(const Pairs& pairs) {
  Tile<kLanes, kRows, kVectors> tile{};
  for (int64_t segment = 0; segment < pairs.segments; ++segment) {
    const float* left = pairs.left + segment * pairs.left_segment;
    const float* right = pairs.right + segment * pairs.right_segment;
    for (int64_t step = 0; step < pairs.steps; ++step) {
      Vector<kLanes> values[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) values[v] = load<kLanes>(right + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vector<kLanes> factor = splat<kLanes>(left[r]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          tile.values[r][v] = multiply_add(factor, values[v], tile.values[r][v]);
      }
      left += pairs.left_step;
      right += pairs.right_step;
    }
  }
  return tile;
}

/// sums[r][v] += sum over the steps of left[r] * right[v]; sums has rows of `stride` floats. kFirst: as if
/// they were zero before.
template <int kLanes, int kRows, int kVectors, bool kFirst = false>
inline void add_products(const Pairs& pairs, float* sums, int64_t stride) {
  const auto tile = products_of<kLanes, kRows, kVectors>(pairs);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      float* sum = sums + r * stride + v * kLanes;
      const Vector<kLanes> before = kFirst ? Vector<kLanes>{} : load<kLanes>(sum);
      store<kLanes>(before + tile.values[r][v], sum);
    }
  }
}

/// The same for any number of rows and vectors.
template <int kLanes, bool kFirst = false>
inline void add_all_products(const Pairs& pairs, int64_t rows, int64_t vectors, float* sums, int64_t stride) {
  const Panels panels{vectors};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t vector = panels.begin(panel);
    with_width(panels.width(panel), [&](auto width) {
      each_row_block(rows, [&](int64_t row, auto count) {
        Pairs part = pairs;
        part.left += row;
        part.right += vector * kLanes;
        add_products<kLanes, count, width, kFirst>(part, sums + row * stride + vector * kLanes, stride);
      });
    });
  }
}

#if defined(__AVX512F__)
/// The same for at most four right numbers and kFours times four left numbers, in one segment: the 16 sums of
/// four by four are in one vector.
template <int kFours>
inline void add_products_by_fours(const Pairs& pairs, int64_t count, float* sums, int64_t stride) {
  const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  constexpr __mmask16 kAll = 0xffff;  // g++ 12 warns of the intrinsics without a mask
  Vector<16> tile[kFours] = {};
  const float* left = pairs.left;
  const float* right = pairs.right;
  for (int64_t step = 0; step < pairs.steps; ++step, left += pairs.left_step, right += pairs.right_step) {
    const Vector<16> factor =
        _mm512_maskz_permutexvar_ps(kAll, spread, _mm512_castps128_ps512(_mm_loadu_ps(right)));
#pragma GCC unroll 8
    for (int r = 0; r < kFours; ++r)
      tile[r] = multiply_add(factor, _mm512_maskz_broadcast_f32x4(kAll, _mm_loadu_ps(left + 4 * r)), tile[r]);
  }
  for (int64_t r = 0; r < kFours; ++r) {
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t c = 0; c < count; ++c) sums[(4 * r + i) * stride + c] += tile[r][c * 4 + i];
    }
  }
}
#endif

}  // namespace
}  // namespace lockstep::kernels
