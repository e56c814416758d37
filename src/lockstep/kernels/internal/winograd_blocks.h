// The gradient by the weight of a node of the tree by Winograd's algorithm, for layers with many weights.
#pragma once

#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/winograd.h"

namespace lockstep::kernels {
namespace {

/// The number of shards for which BlockedWeightGradient is better than one shard after the other, whose sums
/// for all points of a tile do not fit into a cache: as many as have transformed tiles that fit into one.
inline int64_t shards_by_blocks(const ConvolutionShape& shape, int64_t points) {
  const int64_t tiles = TileGrid(shape_of_shards(shape, 1)).count();
  if (points * shape.filters * shape.channels <= kSecondLevel || tiles > gradient_chunk(shape, points))
    return 1;
  return larger(1, kThirdLevel / (points * (shape.filters + shape.channels) * tiles));
}

/// Of several shards: for a block of filters and channels at a time, the products of each shard are
/// transformed back and added in the tree while they are in a cache. If a shard has few tiles, storing its
/// products would take much of the time, and the points of a column of a tile are transformed while they are
/// in registers. The bits are those of winograd_weight_gradient and a sum over the shards in the tree.
template <class T, int kLanes, int kKernel>
class BlockedWeightGradient {
 public:
  BlockedWeightGradient(const ConvolutionShape& shape, const T* gradient, const T* input)
      : shape_(shape),
        grid_(shape),
        of_shard_(grid_.count() / shape.shards),
        padded_(divided_up(shape.channels, kLanes) * kLanes),
        inputs_(PointTiles::take(workspace_, grid_.count(), shape.channels, kPoints)),
        gradients_(PointTiles::take(workspace_, grid_.count(), shape.filters, kPoints)),
        packed_(workspace_.take(kKernel * kKernel * shape.filters * padded_)),
        points_(workspace_.take(kPoints * kBlockSize)),
        block_(workspace_.take(kKernel * kKernel * kBlockSize)) {
    Workspace readers;
    TileReader<kLanes, kSide, InputStep<kSide>, T>(readers, grid_,
                                                   {shape.height, shape.width, shape.channels},
                                                   shape.padding_height, shape.padding_width)
        .read(input, 0, grid_.count(), inputs_);
    TileReader<kLanes, kSide, GradientStep<kSide>, T>(
        readers, grid_, {shape.output_height(), shape.output_width(), shape.filters}, 0, 0)
        .read(gradient, 0, grid_.count(), gradients_);
  }

  void write_weight(float* weight_gradient) const {
    const int64_t vectors = padded_ / kLanes;
    const bool few = of_shard_ <= kFewTiles;
    const int64_t wide = few ? kVectors : kTileVectors, high = few ? kFilters / 2 : kFilters;
    for (int64_t vector = 0; vector < vectors; vector += wide) {
      for (int64_t filter = 0; filter < shape_.filters; filter += high)
        add_block({filter, smaller(shape_.filters, filter + high)}, vector * kLanes,
                  smaller(wide, vectors - vector));
    }
    unpack_weights(weight_by_channels(shape_), packed_, padded_, weight_gradient);
  }

  void write_bias(float* bias_gradient) const {
    constexpr int kSumPoint = kSide + 1;  // at the point (1, 1) the transform of a tile is its sum
    const int64_t padded = divided_up(shape_.filters, kLanes) * kLanes;
    Workspace workspace;
    float* sums = workspace.take(padded);
    sum_shards(0, shape_.shards, padded, sums, [&](int64_t shard, float* target) {
      clear(target, padded);
      for (int64_t lane = 0; lane < padded; lane += kLanes)
        add_rows<kLanes>(gradients_.tile(kSumPoint, shard * of_shard_) + lane, of_shard_, gradients_.channels,
                         target + lane);
    });
    copy_values<kLanes>(sums, shape_.filters, bias_gradient);
  }

 private:
  static constexpr int kSide = side_of(kKernel);
  static constexpr int64_t kPoints = kSide * kSide;
  static constexpr int64_t kFewTiles = 8;
  static constexpr int64_t kFilters = 32;  // of a block
  static constexpr int64_t kBlockSize = kFilters * kTileVectors * kLanes;
  // The sums for a column of a tile, kSide * kRows * kVectors, stay in registers.
  static constexpr int kRows = kManyRegisters ? (kSide == 6 ? 2 : 3) : (kSide == 6 ? 2 : 1);
  static constexpr int kVectors = kManyRegisters && kSide == 6 ? 2 : 1;

  void add_block(Range filters, int64_t lane, int64_t vectors) const {
    const int64_t width = vectors * kLanes, size = filters.count() * width;
    sum_shards(0, shape_.shards, kKernel * kKernel * size, block_, [&](int64_t shard, float* target) {
      if (of_shard_ <= kFewTiles) return write_columns(shard, filters, lane, vectors, target);
      with_width(vectors, [&](auto columns) {
        for (int64_t point = 0; point < kPoints; ++point)
          multiply_point<columns>(shard, point, filters, lane);
      });
      transform_weight_gradient<kLanes, kKernel>(points_, filters.count(), width, target);
    });
    for (int64_t row = 0; row < kKernel * kKernel * filters.count(); ++row) {
      const int64_t tap = row / filters.count(), filter = filters.begin + row % filters.count();
      copy_values<kLanes>(block_ + row * width, width,
                          packed_ + (tap * shape_.filters + filter) * padded_ + lane);
    }
  }

  template <int kWide>
  void multiply_point(int64_t shard, int64_t point, Range filters, int64_t lane) const {
    float* sums = points_ + point * filters.count() * kWide * kLanes;
    each_row_block(filters.count(), [&](int64_t row, auto rows) {
      store_rows(products_of<kLanes, rows, kWide>(
                     {gradients_.tile(point, shard * of_shard_) + filters.begin + row, 0, gradients_.channels,
                      inputs_.tile(point, shard * of_shard_) + lane, 0, inputs_.channels, 1, of_shard_}),
                 sums + row * kWide * kLanes, kWide * kLanes);
    });
  }

  void write_columns(int64_t shard, Range filters, int64_t lane, int64_t vectors, float* target) const {
    const int64_t width = vectors * kLanes, size = filters.count() * width;
    for (int64_t row = 0; row < filters.count(); row += kRows) {
      with_constant(smaller(kRows, filters.count() - row), [&](auto rows) {
        if constexpr (rows <= kRows) {
          float* place = target + row * width;
          if (vectors == kVectors)
            return write_rows<rows, kVectors>(shard, filters.begin + row, lane, place, size);
          write_rows<rows, 1>(shard, filters.begin + row, lane, place, size);
        }
      });
    }
  }

  /// The sums of a shard for some filters and vectors of channels, as [taps, `size` floats].
  template <int kSomeRows, int kSomeVectors>
  void write_rows(int64_t shard, int64_t filter, int64_t lane, float* target, int64_t size) const {
    using Step = WeightGradientStep<kKernel>;
    Tile<kLanes, kSomeRows, kSomeVectors> middle[kKernel][kSide];
    for (int x = 0; x < kSide; ++x) {
      Tile<kLanes, kSomeRows, kSomeVectors> column[kSide];
      sum_column(x, shard, filter, lane, column);
#pragma GCC unroll 8
      for (int r = 0; r < kSomeRows; ++r) {
#pragma GCC unroll 3
        for (int v = 0; v < kSomeVectors; ++v) {
          Vector<kLanes> in[kSide], out[kKernel];
#pragma GCC unroll 8
          for (int y = 0; y < kSide; ++y) in[y] = column[y].values[r][v];
          Step::apply(in, out);
#pragma GCC unroll 8
          for (int y = 0; y < kKernel; ++y) middle[y][x].values[r][v] = out[y];
        }
      }
    }
    for (int y = 0; y < kKernel; ++y) {
#pragma GCC unroll 8
      for (int r = 0; r < kSomeRows; ++r) {
#pragma GCC unroll 3
        for (int v = 0; v < kSomeVectors; ++v) {
          Vector<kLanes> in[kSide], out[kKernel];
#pragma GCC unroll 8
          for (int x = 0; x < kSide; ++x) in[x] = middle[y][x].values[r][v];
          Step::apply(in, out);
#pragma GCC unroll 8
          for (int x = 0; x < kKernel; ++x)
            store<kLanes>(out[x], target + (y * kKernel + x) * size + (r * kSomeVectors + v) * kLanes);
        }
      }
    }
  }

  /// column[y] = the products of a shard's tiles at the point (y, x)
  template <int kSomeRows, int kSomeVectors>
  void sum_column(int x, int64_t shard, int64_t filter, int64_t lane,
                  Tile<kLanes, kSomeRows, kSomeVectors> (&column)[kSide]) const {
    Tile<kLanes, kSomeRows, kSomeVectors> sums[kSide] = {};
    const float* left = gradients_.tile(x, shard * of_shard_) + filter;
    const float* right = inputs_.tile(x, shard * of_shard_) + lane;
    for (int64_t i = 0; i < of_shard_; ++i, left += gradients_.channels, right += inputs_.channels) {
#pragma GCC unroll 8
      for (int y = 0; y < kSide; ++y) {
        const float* factors = left + y * kSide * gradients_.point_stride;
        const float* vectors = right + y * kSide * inputs_.point_stride;
        Vector<kLanes> values[kSomeVectors];
#pragma GCC unroll 3
        for (int v = 0; v < kSomeVectors; ++v) values[v] = load<kLanes>(vectors + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kSomeRows; ++r) {
          const Vector<kLanes> factor = splat<kLanes>(factors[r]);
#pragma GCC unroll 3
          for (int v = 0; v < kSomeVectors; ++v)
            sums[y].values[r][v] = multiply_add(factor, values[v], sums[y].values[r][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int y = 0; y < kSide; ++y) column[y] = sums[y];
  }

  const ConvolutionShape& shape_;
  Workspace workspace_;
  TileGrid grid_;
  int64_t of_shard_;  // tiles
  int64_t padded_;    // channels
  PointTiles inputs_;
  PointTiles gradients_;
  float* packed_;  // [taps, filters, padded channels]
  float* points_;  // of a block and a shard
  float* block_;   // [taps, filters of the block, channels of the block]
};

}  // namespace
}  // namespace lockstep::kernels
