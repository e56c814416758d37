// The gradient of a convolution by its weight on AMX. Only for files that are compiled for AMX.
#pragma once

#include "lockstep/kernels/internal/tile_weights.h"

namespace lockstep::kernels {
namespace {

/// The gradients of `count` places, up to 32, for 16 filters (those in the mask), as columns 0 to 31 of 16
/// rows, `stride` numbers apart. The remaining columns are zero.
inline void transpose_gradients(const BFloat16* gradient, int64_t filters, int64_t count, __mmask16 mask,
                                BFloat16* transposed, int64_t stride) {
  const auto read = [&](int64_t place) {
    return place < count ? _mm256_maskz_loadu_epi16(mask, gradient + place * filters)
                         : _mm256_setzero_si256();
  };
  __m512i rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_inserti64x4(_mm512_castsi256_si512(read(i)), read(i + 16), 1);
  turn_two_squares(rows);
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(transposed + i * stride, rows[i]);
}

constexpr int64_t kChunk = 512;  // about the number of places whose products are summed at once

/// The gradient by the weight. For some rows of places at a time, it is the transposed gradients (filters by
/// places) times the images' pixels.
class TileGradient {
 public:
  TileGradient(Workspace& workspace, const ConvolutionShape& shape, const TileInput& input)
      : shape_(shape),
        grid_(input, shape.output_height(), shape.output_width(), shape.stride_height, shape.stride_width),
        plane_row_(input.plane_width * shape.channels),
        kernel_row_(shape.kernel_width * shape.channels),
        padded_row_(divided_up(kernel_row_, kTileSide) * kTileSide),
        padded_filters_(divided_up(shape.filters, kBlockSide) * kBlockSide),
        rows_at_once_(grid_.is_flat ? larger(1, kChunk / grid_.columns) : 1),
        stride_((divided_up(rows_at_once_ * grid_.columns, kTileDepth) + 1) * kTileDepth) {
    pairs_ = reinterpret_cast<uint32_t*>(workspace.take(numbers(stride_) + kTileDepth));
    transposed_ = take_halves(workspace, padded_filters_ * stride_);
    ones_ = take_halves(workspace, kTileSize);
    sums_ = workspace.take(shape.kernel_height * padded_filters_ * padded_row_);
    bias_sums_ = workspace.take(padded_filters_ * kTileSide);
    clear(sums_, shape.kernel_height * padded_filters_ * padded_row_);
    clear(bias_sums_, padded_filters_ * kTileSide);
    clear(transposed_, padded_filters_ * stride_);
    for (int64_t i = 0; i < kTileSize; ++i) ones_[i] = {0x3f80};
  }

  /// The number of values that it reads after the last image.
  int64_t beyond() const { return numbers(stride_) + shape_.stride_width * shape_.channels + kTileDepth; }

  void add(const TilePlanes& planes, const BFloat16* gradient) {
    const BFloat16* from = gradient + planes.first * grid_.height * grid_.width * shape_.filters;
    const int64_t rows = grid_.rows_of(planes.images);
    for (int64_t begin = 0; begin < rows; begin += rows_at_once_) {
      const int64_t end = smaller(rows, begin + rows_at_once_);
      const int64_t steps = divided_up((end - begin) * grid_.columns, kTileDepth);
      transpose(from, begin, end);
      pair(planes.data + grid_.pixel(begin) * shape_.channels, numbers(steps * kTileDepth));
      finish_writes();
      for (int64_t filter = 0; filter < shape_.filters; filter += kBlockSide) add_products(filter, steps);
    }
  }

  /// Writes weight_gradient in the weight's order, and bias_gradient unless it is null.
  void write(float* weight_gradient, float* bias_gradient) const {
    const WeightMatrix matrix = weight_by_filters(shape_);
    for (int64_t filter = 0; filter < shape_.filters; ++filter) {
      for (int64_t tap = 0; tap < matrix.taps; ++tap) {
        const float* from = sums_ + (tap / shape_.kernel_width * padded_filters_ + filter) * padded_row_ +
                            tap % shape_.kernel_width * shape_.channels;
        for (int64_t c = 0; c < shape_.channels; ++c) weight_gradient[matrix.place(tap, c, filter)] = from[c];
      }
      if (bias_gradient != nullptr) bias_gradient[filter] = bias_sums_[filter * kTileSide];
    }
  }

 private:
  /// The count from the first number of a line of places to the last number under the kernel.
  int64_t numbers(int64_t places) const {
    return places * shape_.stride_width * shape_.channels + (shape_.kernel_height - 1) * plane_row_ +
           padded_row_;
  }

  /// The gradients of the rows [begin, end) as [filters padded to 32, stride_], with neighbouring places next
  /// to each other. Places that do not count are zero, also those up to the next multiple of 32.
  void transpose(const BFloat16* gradient, int64_t begin, int64_t end) {
    for (int64_t filter = 0; filter < shape_.filters; filter += kTileSide) {
      const auto mask = static_cast<__mmask16>(first_halves(smaller(kTileSide, shape_.filters - filter)));
      BFloat16* target = transposed_ + filter * stride_;
      // A row writes zeros after its end, which the next row overwrites.
      for (int64_t row = begin; row < end; ++row) {
        const int64_t width = grid_.counts(row) ? grid_.width : 0;
        for (int64_t x = 0; x < grid_.columns; x += kTileDepth) {
          transpose_gradients(gradient + (grid_.output(row) + x) * shape_.filters + filter, shape_.filters,
                              larger(0, width - x), mask, target + (row - begin) * grid_.columns + x,
                              stride_);
        }
      }
      for (int64_t i = 0; i < kTileSide; ++i)
        _mm512_storeu_si512(target + i * stride_ + (end - begin) * grid_.columns, _mm512_setzero_si512());
    }
  }

  /// pairs_[i] = number i and the corresponding number of the next place
  void pair(const BFloat16* numbers, int64_t count) {
    const auto read = [](const BFloat16* place) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
    };
    const int64_t distance = shape_.stride_width * shape_.channels;
    for (int64_t i = 0; i < count; i += kTileSide)
      _mm512_storeu_si512(pairs_ + i, beside(read(numbers + i), read(numbers + i + distance)));
  }

  /// All products for up to 32 filters, and the sums over the places, which are products with ones.
  void add_products(int64_t filter, int64_t steps) {
    const LeftRows left{transposed_ + filter * stride_, stride_ * 2, 1, 0, steps};
    const int64_t distance =
        shape_.stride_width * shape_.channels * 2;  // pairs from one row of a tile to the next
    for (int64_t ky = 0; ky < shape_.kernel_height; ++ky) {
      for (int64_t number = 0; number < kernel_row_; number += kBlockSide) {
        const auto* right = reinterpret_cast<const BFloat16*>(pairs_ + ky * plane_row_ + number);
        add_block(left, {right, distance * 4, 2 * kTileSide, kTileSide * distance * 2},
                  shape_.filters - filter, kernel_row_ - number,
                  {sums_ + (ky * padded_filters_ + filter) * padded_row_ + number, padded_row_});
      }
    }
    add_block(left, {ones_, kTileBytes, 0, 0}, shape_.filters - filter, 1,
              {bias_sums_ + filter * kTileSide, kTileSide});
  }

  static void add_block(const LeftRows& left, const RightPairs& right, int64_t rows, int64_t columns,
                        const BlockSums& sums) {
    with_block(rows, columns, [&](auto high, auto wide) {
      load_block<high, wide>(sums);
      add_block_product<high, wide>(left, right);
      store_block<high, wide>(sums);
    });
  }

  const ConvolutionShape& shape_;
  PlaceGrid grid_;
  int64_t plane_row_;
  int64_t kernel_row_;
  int64_t padded_row_;
  int64_t padded_filters_;
  int64_t rows_at_once_;
  int64_t stride_;
  uint32_t* pairs_;
  BFloat16* transposed_;
  BFloat16* ones_;
  float* sums_;
  float* bias_sums_;
};

}  // namespace
}  // namespace lockstep::kernels
