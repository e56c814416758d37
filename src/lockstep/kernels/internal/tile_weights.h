// The weights of convolutions on AMX, in the order in which tiles read them. Only for files that are compiled
// for AMX.
#pragma once

#include "lockstep/kernels/internal/tile_planes.h"

namespace lockstep::kernels {
namespace {

/// Weights as right operands: [blocks of 32 lanes][rows of the kernel][steps][2][16 pairs][16 lanes][2].
/// Numbers after a row and after the lanes are zero.
struct TileWeights {
  BFloat16* data;
  int64_t segments;
  int64_t row;  ///< numbers in a row of the kernel
  int64_t steps;

  int64_t block_size() const { return segments * steps * 2 * kTileSize; }
  RightPairs block(int64_t index) const {
    return {data + index * block_size(), kTileBytes, kTileSize, 2 * kTileSize};
  }
};

/// The weight as [filters, kernel_height, kernel_width, channels]: itself, or a copy.
inline const BFloat16* with_channels_last(Workspace& workspace, const WeightMatrix& weight,
                                          const BFloat16* source) {
  if (weight.depth_stride == 1) return source;
  const int64_t size = weight.lanes * weight.taps * weight.depth;
  BFloat16* target = take_halves(workspace, size + kTileSide);
  const __m512i steps =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(static_cast<int>(weight.depth_stride)));
  for (int64_t lane = 0; lane < weight.lanes; ++lane) {
    for (int64_t tap = 0; tap < weight.taps; ++tap) {
      const BFloat16* from = source + weight.place(tap, 0, lane);
      BFloat16* to = target + (lane * weight.taps + tap) * weight.depth;
      int64_t d = 0;
      // Each number is gathered as a word, so the last number is left out: the weight may end after it.
      for (; d + kTileSide < weight.depth; d += kTileSide) {
        const __m512i words = _mm512_i32gather_epi32(steps, from + d * weight.depth_stride, 2);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + d), _mm512_cvtepi32_epi16(words));
      }
      for (; d < weight.depth; ++d) to[d] = from[d * weight.depth_stride];
    }
  }
  return target;
}

/// Two rows of 16 numbers as 16 pairs.
inline __m512i beside(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

inline TileWeights take_weights(Workspace& workspace, int64_t kernel_height, int64_t row, int64_t lanes) {
  TileWeights packed{nullptr, kernel_height, row, divided_up(row, kTileDepth)};
  packed.data = take_halves(workspace, divided_up(lanes, kBlockSide) * packed.block_size());
  return packed;
}

/// The weights from channels to filters.
inline TileWeights pack_forward(Workspace& workspace, const ConvolutionShape& shape, const BFloat16* weight) {
  const BFloat16* source = with_channels_last(workspace, weight_by_filters(shape), weight);
  const TileWeights packed =
      take_weights(workspace, shape.kernel_height, shape.kernel_width * shape.channels, shape.filters);
  BFloat16* target = packed.data;
  for (int64_t lane = 0; lane < shape.filters; lane += kBlockSide) {
    for (int64_t segment = 0; segment < packed.segments; ++segment) {
      for (int64_t number = 0; number < packed.row; number += kTileDepth) {
        const __mmask32 mask = first_halves(packed.row - number);
        for (int64_t first = lane; first < lane + kBlockSide; first += kTileSide, target += kTileSize) {
          VectorTypes<kTileSide>::Words pairs[kTileSide] = {};
          for (int64_t i = 0; i < smaller(kTileSide, shape.filters - first); ++i) {
            const BFloat16* row = source + ((first + i) * packed.segments + segment) * packed.row;
            pairs[i] =
                reinterpret_cast<VectorTypes<kTileSide>::Words>(_mm512_maskz_loadu_epi16(mask, row + number));
          }
          transpose_square(pairs);
          std::memcpy(target, pairs, sizeof(pairs));
        }
      }
    }
  }
  return packed;
}

/// The weights from filters to channels, with the kernel rotated by 180 degrees.
inline TileWeights pack_backward(Workspace& workspace, const ConvolutionShape& shape,
                                 const BFloat16* weight) {
  const BFloat16* source = with_channels_last(workspace, weight_by_filters(shape), weight);
  const TileWeights packed =
      take_weights(workspace, shape.kernel_height, shape.kernel_width * shape.filters, shape.channels);
  const int64_t taps = shape.kernel_height * shape.kernel_width;
  BFloat16* target = packed.data;
  for (int64_t lane = 0; lane < shape.channels; lane += kBlockSide) {
    for (int64_t segment = 0; segment < packed.segments; ++segment) {
      for (int64_t number = 0; number < packed.row; number += kTileDepth) {
        for (int64_t first = lane; first < lane + kBlockSide; first += kTileSide, target += kTileSize) {
          const auto mask = static_cast<__mmask16>(
              first < shape.channels ? first_halves(smaller(kTileSide, shape.channels - first)) : 0);
          const auto read = [&](int64_t place) {
            if (place >= packed.row) return _mm256_setzero_si256();
            const int64_t tap = taps - 1 - (segment * shape.kernel_width + place / shape.filters);
            return _mm256_maskz_loadu_epi16(
                mask, source + (place % shape.filters * taps + tap) * shape.channels + first);
          };
          for (int64_t i = 0; i < kTileSide; ++i)
            _mm512_storeu_si512(target + i * kTileDepth,
                                beside(read(number + 2 * i), read(number + 2 * i + 1)));
        }
      }
    }
  }
  return packed;
}

}  // namespace
}  // namespace lockstep::kernels
