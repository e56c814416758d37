// Convolutions by Winograd's algorithm with tiles of 4 x 4 outputs: transform, a matrix product for each
// point of a tile (36 or 64), transform back.
#pragma once

#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/winograd_tiles.h"

namespace lockstep::kernels {
namespace {

/// Transforms packed [taps, depth, padded] to [points][panel][depth][the panel's lanes].
template <int kLanes, int kKernel>
inline void transform_weights(const float* packed, int64_t depth, int64_t padded, float* points) {
  constexpr int kSide = side_of(kKernel);
  const Panels panels{padded / kLanes};
  const int64_t size = depth * padded;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.width(panel) * kLanes;
    const int64_t first_lane = panels.begin(panel) * kLanes;
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t lane = 0; lane < width; lane += kLanes) {
        const float* source = packed + d * padded + first_lane + lane;
        float* target = points + first_lane * depth + d * width + lane;
        transform<kLanes, WeightStep<kKernel>>(
            [&](int y, int x) { return load<kLanes>(source + (y * kKernel + x) * size); },
            [&](int y, int x, Vector<kLanes> value) {
              store<kLanes>(value, target + (y * kSide + x) * size);
            });
      }
    }
  }
}

/// right = left * weights, for one point; weights are [panel][depth][the panel's lanes].
template <int kLanes>
inline void multiply_point(const PointTiles& left, const PointTiles& right, int64_t point, int64_t rows,
                           const float* weights) {
  const int64_t depth = left.channels;
  const Panels panels{divided_up(right.channels, kLanes)};
  // The vectors of the last panel may overwrite the first channels of the next tile, so the first panels come
  // later.
  for (int64_t panel = panels.count() - 1; panel >= 0; --panel) {
    const int64_t lane = panels.begin(panel) * kLanes;
    with_width(panels.width(panel), [&](auto width) {
      each_row_block(rows, [&](int64_t row, auto count) {
        const Rows part{left.tile(point, row), depth, 1, 0, depth};
        store_rows(multiply<kLanes, count, width>(part, weights + lane * depth),
                   right.tile(point, row) + lane, right.channels);
      });
    });
  }
}

/// Whether the channels after the last whole vector are so few that they take less time by fours.
template <int kLanes>
inline bool has_rest_by_fours(int64_t channels, int64_t filters) {
  const int64_t rest = channels % kLanes;
  return kManyRegisters && kLanes == 16 && rest > 0 && rest <= 4 && filters % 4 == 0;
}

/// Adds the products of the gradients' and the inputs' tiles to sums [filters, padded channels], for one
/// point. kFirst: as if the sums were zero before; not with has_rest_by_fours().
template <int kLanes, bool kFirst>
inline void add_point_products(const PointTiles& gradients, const PointTiles& inputs, int64_t point,
                               int64_t tiles, float* sums) {
  const int64_t vectors = divided_up(inputs.channels, kLanes);
  const int64_t stride = vectors * kLanes;
  const Pairs pairs{
      gradients.tile(point, 0), 0, gradients.channels, inputs.tile(point, 0), 0, inputs.channels, 1, tiles};
#if defined(__AVX512F__)
  if (has_rest_by_fours<kLanes>(inputs.channels, gradients.channels)) {
    const int64_t whole = inputs.channels / kLanes, rest = inputs.channels % kLanes;
    add_all_products<kLanes>(pairs, gradients.channels, whole, sums, stride);
    each_row_block(gradients.channels / 4, [&](int64_t four, auto fours) {
      Pairs part = pairs;
      part.left += 4 * four;
      part.right += whole * kLanes;
      add_products_by_fours<fours>(part, rest, sums + 4 * four * stride + whole * kLanes, stride);
    });
    return;
  }
#endif
  add_all_products<kLanes, kFirst>(pairs, gradients.channels, vectors, sums, stride);
}

/// output = convolution of input with the weights, which `matrix` (filters as lanes) selects from `weight`,
/// plus bias unless it is null
template <class T, int kLanes, int kKernel>
void winograd_convolution(const ConvolutionShape& shape, const T* input, const T* weight,
                          const WeightMatrix& matrix, const T* bias, const ConvolutionOutput<T>& output) {
  constexpr int kSide = side_of(kKernel);
  constexpr int64_t kPoints = kSide * kSide;
  const TileGrid grid(shape);
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t point_weights = shape.channels * padded_filters;
  const int64_t chunk = chunk_size(shape, grid, kPoints, kSecondLevel);
  Workspace workspace;
  float* packed = workspace.take(matrix.taps * point_weights);
  float* weights = workspace.take(kPoints * point_weights);
  float* packed_bias = workspace.take(padded_filters);
  const auto inputs = PointTiles::take(workspace, chunk, shape.channels, kPoints);
  const auto outputs = PointTiles::take(workspace, chunk, shape.filters, kPoints);
  const PlaneSize input_size{shape.height, shape.width, shape.channels};
  const PlaneSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, InputStep<kSide>, T> reader(workspace, grid, input_size, shape.padding_height,
                                                        shape.padding_width);
  pack_weights(matrix, weight, padded_filters, packed);
  pack_bias(bias, shape.filters, padded_filters, packed_bias);
  transform_weights<kLanes, kKernel>(packed, shape.channels, padded_filters, weights);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    reader.read(input, begin, count, inputs);
    for (int64_t point = 0; point < kPoints; ++point)
      multiply_point<kLanes>(inputs, outputs, point, count, weights + point * point_weights);
    write_tiles<kLanes, kSide>(grid, output_size, outputs, begin, count, packed_bias, output);
  }
}

/// input_gradient, by the transpose of winograd_convolution. It multiplies the tiles of the output. There are
/// fewer of them than tiles of the padded gradient if the kernel is larger than twice the padding plus one.
template <class T, int kLanes, int kKernel>
void winograd_input_gradient(const ConvolutionShape& shape, const T* gradient, const T* weight,
                             T* input_gradient) {
  constexpr int kSide = side_of(kKernel);
  constexpr int64_t kPoints = kSide * kSide;
  const TileGrid grid(shape);
  const int64_t padded_channels = divided_up(shape.channels, kLanes) * kLanes;
  const int64_t point_weights = shape.filters * padded_channels;
  const WeightMatrix matrix = weight_by_channels(shape);
  const int64_t chunk = chunk_size(shape, grid, kPoints, kSecondLevel);
  Workspace workspace;
  float* packed = workspace.take(matrix.taps * point_weights);
  float* weights = workspace.take(kPoints * point_weights);
  const auto gradients = PointTiles::take(workspace, chunk, shape.filters, kPoints);
  const auto inputs = PointTiles::take(workspace, chunk, shape.channels, kPoints);
  const PlaneSize input_size{shape.height, shape.width, shape.channels};
  const PlaneSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, GradientStep<kSide>, T> reader(workspace, grid, output_size, 0, 0);
  TileAdder<kLanes, kSide, T> adder(workspace, grid, input_size, shape.padding_height, shape.padding_width,
                                    input_gradient);
  pack_weights(matrix, weight, padded_channels, packed);
  transform_weights<kLanes, kKernel>(packed, shape.filters, padded_channels, weights);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    reader.read(gradient, begin, count, gradients);
    for (int64_t point = 0; point < kPoints; ++point)
      multiply_point<kLanes>(gradients, inputs, point, count, weights + point * point_weights);
    adder.add(begin, count, inputs);
  }
  adder.finish();
}

/// Transforms points [side * side][filters, padded] to packed [taps, filters, padded].
template <int kLanes, int kKernel>
inline void transform_weight_gradient(const float* points, int64_t filters, int64_t padded, float* packed) {
  constexpr int kSide = side_of(kKernel);
  const int64_t size = filters * padded;
  for (int64_t i = 0; i < size; i += kLanes) {
    transform<kLanes, WeightGradientStep<kKernel>>(
        [&](int y, int x) { return load<kLanes>(points + (y * kSide + x) * size + i); },
        [&](int y, int x, Vector<kLanes> value) {
          store<kLanes>(value, packed + (y * kKernel + x) * size + i);
        });
  }
}

/// The number of tiles of a shard whose products are summed at once. Each chunk reads and writes all sums. If
/// they do not fit into the second-level cache, chunks are larger, so that this happens less often.
inline int64_t gradient_chunk(const ConvolutionShape& shape, int64_t points) {
  const ConvolutionShape one = shape_of_shards(shape, 1);
  const int64_t room = points * shape.filters * shape.channels <= kSecondLevel ? kSecondLevel : kThirdLevel;
  return chunk_size(one, TileGrid(one), points, room);
}

/// Of one shard: packed [taps, filters, padded channels] and bias_sums [padded filters].
template <class T, int kLanes, int kKernel>
void winograd_shard_gradient(const ConvolutionShape& shape, const T* gradient, const T* input, float* packed,
                             float* bias_sums) {
  constexpr int kSide = side_of(kKernel);
  constexpr int64_t kPoints = kSide * kSide;
  constexpr int kSumPoint = kSide + 1;  // at the point (1, 1) the transform of a tile is its sum
  const TileGrid grid(shape);
  const int64_t padded_channels = divided_up(shape.channels, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t point_weights = shape.filters * padded_channels;
  const int64_t chunk = gradient_chunk(shape, kPoints);
  Workspace workspace;
  float* sums = workspace.take(kPoints * point_weights);
  const auto inputs = PointTiles::take(workspace, chunk, shape.channels, kPoints);
  const auto gradients = PointTiles::take(workspace, chunk, shape.filters, kPoints);
  const PlaneSize input_size{shape.height, shape.width, shape.channels};
  const PlaneSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, InputStep<kSide>, T> input_reader(workspace, grid, input_size,
                                                              shape.padding_height, shape.padding_width);
  TileReader<kLanes, kSide, GradientStep<kSide>, T> gradient_reader(workspace, grid, output_size, 0, 0);
  // Clearing sums that fill no cache would take as long as adding to them.
  const bool stores_first = !has_rest_by_fours<kLanes>(shape.channels, shape.filters);
  if (!stores_first) clear(sums, kPoints * point_weights);
  clear(bias_sums, padded_filters);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    input_reader.read(input, begin, count, inputs);
    gradient_reader.read(gradient, begin, count, gradients);
    const auto add =
        begin == 0 && stores_first ? &add_point_products<kLanes, true> : &add_point_products<kLanes, false>;
    for (int64_t point = 0; point < kPoints; ++point)
      add(gradients, inputs, point, count, sums + point * point_weights);
    for (int64_t lane = 0; lane < padded_filters; lane += kLanes) {
      add_rows<kLanes>(gradients.tile(kSumPoint, 0) + lane, count, gradients.channels, bias_sums + lane);
    }
  }
  transform_weight_gradient<kLanes, kKernel>(sums, shape.filters, padded_channels, packed);
}

/// Of a node of the tree, one shard after the other.
template <class T, int kLanes, int kKernel>
void winograd_weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input,
                              const WeightGradients& target) {
  const ConvolutionShape one = shape_of_shards(shape, 1);
  const int64_t padded_channels = divided_up(shape.channels, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t weights = kKernel * kKernel * shape.filters * padded_channels;
  Workspace workspace;
  float* packed = workspace.take(weights + padded_filters);  // and the bias
  sum_shards(0, shape.shards, weights + padded_filters, packed, [&](int64_t shard, float* result) {
    const int64_t begin = shard * one.batch;
    winograd_shard_gradient<T, kLanes, kKernel>(
        one, gradient + begin * shape.output_height() * shape.output_width() * shape.filters,
        input + begin * shape.height * shape.width * shape.channels, result, result + weights);
  });
  unpack_weights(weight_by_channels(shape), packed, padded_channels, target.weight);
  if (target.bias != nullptr) copy_values<kLanes>(packed + weights, shape.filters, target.bias);
}

}  // namespace
}  // namespace lockstep::kernels
