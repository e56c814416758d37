// Convolutions of bfloat16 images as products of matrices on AMX. No image is unrolled: a row of the
// kernel lies side by side in memory with all its channels, and the next place's row begins one pixel further
// on, so a tile reads them where they are. What a tile reads beyond a row is multiplied with zeros, so an
// infinity or a NaN may reach the places before it. Only for files that are compiled for AMX.
#pragma once

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/matrix_tiles.h"
#include "lockstep/kernels/internal/planes.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

inline BFloat16* take_halves(Workspace& workspace, int64_t count) {
  return reinterpret_cast<BFloat16*>(workspace.take(divided_up(count, 2)));
}

inline __mmask32 first_halves(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

constexpr int64_t kGroupBytes = int64_t{1} << 19;

inline void clear(BFloat16* values, int64_t count) {
  std::memset(values, 0, static_cast<size_t>(count) * sizeof(BFloat16));
}

/// What a convolution reads: images, the border around each, and how far apart their pixels are put (1
/// without a stride between them).
struct TileInput {
  const BFloat16* images;
  PlaneSize size;
  int64_t batch;
  int64_t top;
  int64_t left;
  int64_t step_height;
  int64_t step_width;
  int64_t plane_height;
  int64_t plane_width;

  bool is_as_stored() const {
    return plane_height == size.height && plane_width == size.width && step_height == 1 && step_width == 1;
  }
  int64_t plane_size() const { return plane_height * plane_width * size.channels; }
};

/// Some images with their borders, one behind the other: [images, height, width, channels], and `beyond`
/// numbers more can be read.
struct TilePlanes {
  const BFloat16* data;
  int64_t first;  ///< image of the batch
  int64_t images;
};

/// Puts an image into its plane, with zeros around and between its pixels.
inline void fill_plane(const TileInput& input, const BFloat16* image, BFloat16* plane) {
  const int64_t channels = input.size.channels;
  const int64_t row = input.plane_width * channels;
  BFloat16* target = plane + input.top * row + input.left * channels;
  BFloat16* end = plane;  // of what is written
  for (int64_t y = 0; y < input.size.height;
       ++y, target += input.step_height * row, image += input.size.width * channels) {
    clear(end, target - end);
    end = target + ((input.size.width - 1) * input.step_width + 1) * channels;
    if (input.step_width == 1) {
      std::memcpy(target, image, static_cast<size_t>(input.size.width * channels) * sizeof(BFloat16));
      continue;
    }
    clear(target, end - target);
    for (int64_t x = 0; x < input.size.width; ++x) {
      std::memcpy(target + x * input.step_width * channels, image + x * channels,
                  static_cast<size_t>(channels) * sizeof(BFloat16));
    }
  }
  clear(end, plane + input.plane_size() - end);
}

/// Calls work(planes) for groups of images of a batch that the second cache holds well; nothing is copied
/// where the images can be read in place.
template <class Work>
inline void each_group(Workspace& workspace, const TileInput& input, int64_t beyond, Work&& work) {
  const int64_t size = input.plane_size();
  const int64_t room = larger(1, kGroupBytes / (size * 2));
  // The last images are copied, as there may be no memory behind them.
  const int64_t in_place = input.is_as_stored() ? larger(0, input.batch - divided_up(beyond, size)) : 0;
  for (int64_t begin = 0; begin < in_place; begin += room)
    work(TilePlanes{input.images + begin * size, begin, smaller(room, in_place - begin)});
  if (in_place == input.batch) return;
  const int64_t most = smaller(room, input.batch - in_place);
  BFloat16* planes = take_halves(workspace, most * size + beyond);
  clear(planes + most * size, beyond);
  for (int64_t begin = in_place; begin < input.batch; begin += most) {
    const int64_t images = smaller(most, input.batch - begin);
    for (int64_t i = 0; i < images; ++i)
      fill_plane(input, input.images + (begin + i) * input.size.size(), planes + i * size);
    work(TilePlanes{planes, begin, images});
  }
}

/// Where the places of an output lie over the planes of its input. Rows of places follow each other, `rows`
/// for each image. Without strides all of a group are one line of places a pixel apart, of which those over
/// the borders count for nothing; with strides each row is a line.
struct PlaceGrid {
  int64_t height;  ///< of the output
  int64_t width;
  bool is_flat;
  int64_t rows;        ///< of an image
  int64_t columns;     ///< places in a row
  int64_t row_pixels;  ///< from the first place of a row to that of the next one
  int64_t image_pixels;

  PlaceGrid(const TileInput& input, int64_t output_height, int64_t output_width, int64_t stride_height,
            int64_t stride_width)
      : height(output_height),
        width(output_width),
        is_flat(stride_height == 1 && stride_width == 1),
        rows(is_flat ? input.plane_height : height),
        columns(is_flat ? input.plane_width : width),
        row_pixels(stride_height * input.plane_width),
        image_pixels(input.plane_height * input.plane_width) {}

  /// Rows from the first one to the last one that counts.
  int64_t rows_of(int64_t images) const { return (images - 1) * rows + height; }
  bool counts(int64_t row) const { return row % rows < height; }
  int64_t pixel(int64_t row) const { return row / rows * image_pixels + row % rows * row_pixels; }
  int64_t output(int64_t row) const { return (row / rows * height + row % rows) * width; }
};

/// Stores the places that count of a block of sums [32, 32], which begins in `row` at `column`, with the bias
/// of its columns added; `output` begins with the columns' filters.
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
        // The second operand is the one that a NaN leaves.
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

/// Weights as right operands: [blocks of 32 lanes][rows of the kernel][steps][2][16 pairs][16 lanes][2], zero
/// beyond the numbers of a row and the lanes.
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
      // A word is gathered for each number, so the last one, behind which the weight may end, is left out.
      for (; d + kTileSide < weight.depth; d += kTileSide) {
        const __m512i words = _mm512_i32gather_epi32(steps, from + d * weight.depth_stride, 2);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + d), _mm512_cvtepi32_epi16(words));
      }
      for (; d < weight.depth; ++d) to[d] = from[d * weight.depth_stride];
    }
  }
  return target;
}

/// Two rows of 16 numbers, those of one beside those of the other.
inline __m512i beside(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

inline TileWeights take_weights(Workspace& workspace, int64_t kernel_height, int64_t row, int64_t lanes) {
  TileWeights packed{nullptr, kernel_height, row, divided_up(row, kTileDepth)};
  packed.data = take_halves(workspace, divided_up(lanes, kBlockSide) * packed.block_size());
  return packed;
}

/// From channels to filters.
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

/// From filters to channels, with the kernel turned by half a circle.
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

struct TileOutput {
  ConvolutionOutput<BFloat16> places;
  int64_t height;
  int64_t width;
  int64_t channels;
};

/// Convolutions of a group of images after the other.
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

  /// How far beyond the last image's end it reads.
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
  /// `count` places from (row, column) on, 32 filters or what is left of them
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
  int64_t place_;  ///< numbers from one place's pixel to the next one's
  int64_t plane_row_;
  int64_t channels_;
  float* bias_;
  float* block_;
};

/// The gradients of `count` places, up to 32, of 16 filters (those of the mask) as columns 0 to 31 of 16
/// rows, `stride` numbers apart; zero beyond.
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

constexpr int64_t kChunk = 512;  // places whose products are summed in one go, about

/// The gradient by the weight: for some rows of places at a time, the gradients transposed (filters by
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

  /// How far beyond the last image's end it reads.
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

  /// weight_gradient in the weight's order, and bias_gradient unless null
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
  /// From the first number of a line of places to the last that the kernel meets.
  int64_t numbers(int64_t places) const {
    return places * shape_.stride_width * shape_.channels + (shape_.kernel_height - 1) * plane_row_ +
           padded_row_;
  }

  /// The gradients of the rows [begin, end) as [filters padded to 32, stride_]: places side by side, zero
  /// where none counts and up to the next 32.
  void transpose(const BFloat16* gradient, int64_t begin, int64_t end) {
    for (int64_t filter = 0; filter < shape_.filters; filter += kTileSide) {
      const auto mask = static_cast<__mmask16>(first_halves(smaller(kTileSide, shape_.filters - filter)));
      BFloat16* target = transposed_ + filter * stride_;
      // The zeros that a row writes beyond its end the next one overwrites.
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

  /// pairs_[i] = numbers i and that of the next place, side by side
  void pair(const BFloat16* numbers, int64_t count) {
    const auto read = [](const BFloat16* place) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
    };
    const int64_t distance = shape_.stride_width * shape_.channels;
    for (int64_t i = 0; i < count; i += kTileSide)
      _mm512_storeu_si512(pairs_ + i, beside(read(numbers + i), read(numbers + i + distance)));
  }

  /// For up to 32 filters: all products, and the sums over the places, which are products with ones.
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
