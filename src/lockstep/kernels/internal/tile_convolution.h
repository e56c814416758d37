// Convolutions of bfloat16 images as products of matrices on AMX. Images are not unrolled: a row of the
// kernel with all its channels is contiguous in memory, and the row of the next place begins one pixel later,
// so a tile reads the rows in place. Numbers after a row are multiplied with zeros, so an infinity or a NaN
// may reach the places before it. Only for files that are compiled for AMX.
#pragma once

#include "lockstep/kernels/internal/tile_weights.h"

namespace lockstep::kernels {
namespace {

/// Adds the bias to a block of sums [32, 32], whose first place is (row, column), and stores the places that
/// count. `output` and `bias` begin with the filters of the block's columns.
inline void store_places(const float* block, int64_t count, const float* bias, const PlaceGrid& grid,
                         int64_t row, int64_t column, int64_t wide,
                         const ConvolutionOutput<BFloat16>& output) {
  const __m512 low_bias = _mm512_loadu_ps(bias);
  const __m512 high_bias = _mm512_loadu_ps(bias + kTileSide);
  const __m512 least = _mm512_set1_ps(OutputRule(output, 1, 0).least);
  const __mmask32 mask = first_halves(wide);
  while (count > 0) {
    const int64_t left_in_row = smaller(count, grid.columns - column);
    if (grid.counts(row)) {
      BFloat16* target = output.data + (grid.output(row) + column) * output.step;
      for (int64_t i = 0; i < smaller(left_in_row, grid.width - column); ++i, target += output.step) {
        // If an operand is a NaN, the result is the second operand.
        const __m512 low =
            _mm512_max_ps(least, _mm512_add_ps(_mm512_load_ps(block + i * kBlockSide), low_bias));
        const __m512 high = _mm512_max_ps(
            least, _mm512_add_ps(_mm512_load_ps(block + i * kBlockSide + kTileSide), high_bias));
        _mm512_mask_storeu_epi16(target, mask, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
      }
    }
    block += left_in_row * kBlockSide;
    count -= left_in_row;
    column = 0;
    ++row;
  }
}

struct TileOutput {
  ConvolutionOutput<BFloat16> places;
  int64_t height;
  int64_t width;
  int64_t channels;
};

/// Convolves one group of images after the other.
class TileConvolution {
 public:
  TileConvolution(Workspace& workspace, const TileInput& input, const TileWeights& weights,
                  int64_t stride_height, int64_t stride_width, const BFloat16* bias, const TileOutput& output)
      : grid_(input, output.height, output.width, stride_height, stride_width),
        weights_(weights),
        output_(output),
        place_(stride_width * input.size.channels),
        plane_row_(input.plane_width * input.size.channels),
        channels_(input.size.channels) {
    const int64_t padded = divided_up(output.channels, kBlockSide) * kBlockSide;
    bias_ = workspace.take(padded);
    block_ = workspace.take(kBlockSide * kBlockSide);
    pack_bias(bias, output.channels, padded, bias_);
  }

  /// The number of values that it reads after the last image.
  int64_t beyond() const { return kBlockSide * place_ + weights_.row + kTileDepth; }

  void write(const TilePlanes& planes) const {
    finish_writes();
    ConvolutionOutput<BFloat16> target = output_.places;
    target.data += planes.first * output_.height * output_.width * target.step;
    const int64_t rows = grid_.rows_of(planes.images);
    const int64_t lines = grid_.is_flat ? 1 : rows;
    const int64_t length = grid_.is_flat ? (rows - 1) * grid_.columns + grid_.width : grid_.width;
    for (int64_t filter = 0; filter < output_.channels; filter += kBlockSide) {
      for (int64_t line = 0; line < lines; ++line) {
        for (int64_t place = 0; place < length; place += kBlockSide) {
          write_block(planes.data + grid_.pixel(line) * channels_ + place * place_,
                      smaller(kBlockSide, length - place), filter, line + place / grid_.columns,
                      place % grid_.columns, target);
        }
      }
    }
  }

 private:
  /// Writes `count` places beginning at (row, column), for 32 filters or the rest of them.
  void write_block(const BFloat16* first, int64_t count, int64_t filter, int64_t row, int64_t column,
                   ConvolutionOutput<BFloat16> target) const {
    const LeftRows left{first, place_ * 2, weights_.segments, plane_row_, weights_.steps};
    const int64_t wide = smaller(kBlockSide, output_.channels - filter);
    with_block(count, wide, [&](auto high_tiles, auto wide_tiles) {
      clear_block<high_tiles, wide_tiles>();
      add_block_product<high_tiles, wide_tiles>(left, weights_.block(filter / kBlockSide));
      store_block<high_tiles, wide_tiles>({block_, kBlockSide});
    });
    target.data += filter;
    store_places(block_, count, bias_ + filter, grid_, row, column, wide, target);
  }

  PlaceGrid grid_;
  TileWeights weights_;
  TileOutput output_;
  int64_t place_;  ///< numbers between the pixels of two neighbouring places
  int64_t plane_row_;
  int64_t channels_;
  float* bias_;
  float* block_;
};

}  // namespace
}  // namespace lockstep::kernels
