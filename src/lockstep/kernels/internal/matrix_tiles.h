// Products of bfloat16 matrices on Intel's AMX: eight tiles of 16 rows of 64 bytes, with sums in float. Four
// tiles contain a block of results, 32 rows by 32 columns, and two tiles each of the operands. Only for files
// that are compiled for AMX.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "lockstep/kernels/internal/vectors.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kTileSide = 16;                      // rows of a tile, and floats in one
constexpr int64_t kTileDepth = 32;                     // bfloat16 numbers in a row of a tile
constexpr int64_t kTileSize = kTileSide * kTileDepth;  // bfloat16 numbers in a tile
constexpr int64_t kTileBytes = 64;                     // of a row
constexpr int64_t kBlockSide = 2 * kTileSide;          // rows and columns of a block

/// While it lives, the tiles of this thread are configured. Afterwards they are free again, so that switches
/// of threads stay fast.
class TileScope {
 public:
  TileScope() {
    alignas(64) struct {
      uint8_t palette = 1;
      uint8_t first_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } layout;
    asm volatile("" : : "r"(&layout) : "memory");
    _tile_loadconfig(&layout);
  }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// The left operand of a block: rows of bfloat16, row_bytes apart. A row has `segments` segments, each with
/// the depth of `steps` tiles.
struct LeftRows {
  const BFloat16* data;
  int64_t row_bytes;
  int64_t segments;
  int64_t segment_stride;  ///< numbers
  int64_t steps;
};

/// The right operand. A step has kColumns tiles of rows of pairs (numbers 2i and 2i + 1 of a column are
/// neighbours), row_bytes apart. The second tile begins `tile_stride` numbers after the first one, the next
/// step `step_stride` numbers after the last one.
struct RightPairs {
  const BFloat16* data;
  int64_t row_bytes;
  int64_t tile_stride;
  int64_t step_stride;
};

/// Sums of a block, [32, 32] floats or the part that kRows and kColumns tiles cover.
struct BlockSums {
  float* data;
  int64_t row_stride;  ///< floats
};

// Makes the compiler write the operands to memory first: it does not know that the intrinsics for loading
// tiles read memory.
inline void finish_writes() { asm volatile("" : : : "memory"); }

template <int kRows, int kColumns>
inline void clear_block() {
  _tile_zero(0);
  if constexpr (kColumns == 2) _tile_zero(1);
  if constexpr (kRows == 2) _tile_zero(2);
  if constexpr (kRows == 2 && kColumns == 2) _tile_zero(3);
}

template <int kRows, int kColumns>
inline void load_block(const BlockSums& sums) {
  const int64_t stride = sums.row_stride * 4;
  _tile_loadd(0, sums.data, stride);
  if constexpr (kColumns == 2) _tile_loadd(1, sums.data + kTileSide, stride);
  if constexpr (kRows == 2) _tile_loadd(2, sums.data + kTileSide * sums.row_stride, stride);
  if constexpr (kRows == 2 && kColumns == 2)
    _tile_loadd(3, sums.data + kTileSide * sums.row_stride + kTileSide, stride);
}

template <int kRows, int kColumns>
inline void store_block(const BlockSums& sums) {
  const int64_t stride = sums.row_stride * 4;
  _tile_stored(0, sums.data, stride);
  if constexpr (kColumns == 2) _tile_stored(1, sums.data + kTileSide, stride);
  if constexpr (kRows == 2) _tile_stored(2, sums.data + kTileSide * sums.row_stride, stride);
  if constexpr (kRows == 2 && kColumns == 2)
    _tile_stored(3, sums.data + kTileSide * sums.row_stride + kTileSide, stride);
}

/// Adds left * right to the block in the tiles.
template <int kRows, int kColumns>
inline void add_block_product(const LeftRows& left, RightPairs right) {
  for (int64_t segment = 0; segment < left.segments; ++segment) {
    const BFloat16* rows = left.data + segment * left.segment_stride;
    for (int64_t step = 0; step < left.steps; ++step, rows += kTileDepth, right.data += right.step_stride) {
      _tile_loadd(6, right.data, right.row_bytes);
      if constexpr (kColumns == 2) _tile_loadd(7, right.data + right.tile_stride, right.row_bytes);
      _tile_loadd(4, rows, left.row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kColumns == 2) _tile_dpbf16ps(1, 4, 7);
      if constexpr (kRows == 2) {
        _tile_loadd(5, reinterpret_cast<const char*>(rows) + kTileSide * left.row_bytes, left.row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (kColumns == 2) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
}

/// Calls work(rows, columns) with the numbers of tiles that cover these rows and columns, one or two each, as
/// compile-time constants.
template <class Work>
inline void with_block(int64_t rows, int64_t columns, Work&& work) {
  const std::integral_constant<int, 1> one;
  const std::integral_constant<int, 2> two;
  if (rows > kTileSide) return columns > kTileSide ? work(two, two) : work(two, one);
  return columns > kTileSide ? work(one, two) : work(one, one);
}

/// Transposes two squares of 16 x 16 half words, one in the lower halves of the rows, the other in the upper
/// halves. It unpacks and does not use the method of transpose_square, because shuffling half words by an
/// index takes several operations.
inline void turn_two_squares(__m512i (&rows)[16]) {
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi16(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi16(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi32(other[i + j], other[i + j + 2]);
      rows[i + 2 * j + 1] = _mm512_unpackhi_epi32(other[i + j], other[i + j + 2]);
    }
  }
  for (int i = 0; i < 16; i += 8) {
    for (int j = 0; j < 4; ++j) {
      other[i + 2 * j] = _mm512_unpacklo_epi64(rows[i + j], rows[i + j + 4]);
      other[i + 2 * j + 1] = _mm512_unpackhi_epi64(rows[i + j], rows[i + j + 4]);
    }
  }
  // A 128-bit lane now has eight rows of one column: lanes 0 and 1 have columns j and j + 8 of the lower
  // matrix, lanes 2 and 3 those of the upper matrix.
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  for (int j = 0; j < 8; ++j) {
    rows[j] = _mm512_permutex2var_epi64(other[j], low, other[j + 8]);
    rows[j + 8] = _mm512_permutex2var_epi64(other[j], high, other[j + 8]);
  }
}

}  // namespace
}  // namespace lockstep::kernels
