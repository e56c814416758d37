// Convolutions with a kernel of one place, without border or stride: products of matrices, [places, channels]
// times [channels, filters]. They multiply little for each number that they read. So places are computed in
// chunks that stay in the first-level cache, while the next chunk is prefetched.
#pragma once

#include <type_traits>

#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/planes.h"
#include "lockstep/kernels/internal/register_tiles.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

/// A multiple of the rows of a tile. Gradients of weights are summed chunk by chunk, so it may only depend on
/// the shape.
inline int64_t pointwise_chunk(const ConvolutionShape& shape) {
  constexpr int64_t kFloats = 8192, kLeast = 24, kRound = 8;
  return larger(kLeast, kFloats / (shape.channels + shape.filters) / kRound * kRound);
}

inline int64_t places_of(const ConvolutionShape& shape) { return shape.batch * shape.height * shape.width; }

/// Returns places [count, channels] as floats, `stride` apart: the input itself, or a copy with zeros beyond
/// the channels.
template <int kLanes, class T>
class PlaceReader {
 public:
  PlaceReader(Workspace& workspace, const T* values, int64_t channels, int64_t stride, int64_t chunk)
      : values_(values),
        channels_(channels),
        stride_(stride),
        copy_(is_in_place() ? nullptr : workspace.take(chunk * stride)) {}

  const float* read(int64_t begin, int64_t count) const {
    const T* source = values_ + begin * channels_;
    if constexpr (std::is_same_v<T, float>) {
      if (copy_ == nullptr) return source;
    }
    fill<kLanes>({copy_, 1, count, stride_}, source, {1, count, channels_}, 0, 0);
    return copy_;
  }

 private:
  bool is_in_place() const { return std::is_same_v<T, float> && channels_ == stride_; }

  const T* values_;
  int64_t channels_;
  int64_t stride_;
  float* copy_;
};

/// Prefetches the cache lines of `count` values, in order, into the second-level cache. The processor then
/// continues automatically, because it detects lines in order.
template <bool kWrite = false, class T>
inline void fetch(const T* values, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(values + i, kWrite, 2);
}

/// Up to kLanes rows of numbers, `stride` apart, transposed: visit(i, vector) for the numbers i of all rows,
/// zero beyond `rows` and `count`.
template <int kLanes, class T, class Visit>
inline void each_turned(const T* source, int64_t stride, int64_t rows, int64_t count, Visit&& visit) {
  typename VectorTypes<kLanes>::Words square[kLanes] = {};
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = source + r * stride;
    square[r] = reinterpret_cast<typename VectorTypes<kLanes>::Words>(
        count == kLanes ? load<kLanes>(row) : load_some<kLanes>(row, count));
  }
  transpose_square(square);
  for (int64_t i = 0; i < count; ++i) visit(i, reinterpret_cast<Vector<kLanes>>(square[i]));
}

/// The weights as [panel][depth][the panel's lanes], zero beyond the lanes.
template <int kLanes, class T>
inline void pack_panels(const WeightMatrix& matrix, const T* weight, float* packed) {
  const Panels panels{divided_up(matrix.lanes, kLanes)};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.width(panel) * kLanes;
    for (int64_t lane = panels.begin(panel) * kLanes, column = 0; column < width;
         lane += kLanes, column += kLanes) {
      const int64_t lanes = smaller(kLanes, matrix.lanes - lane);
      if (matrix.lane_stride == 1) {
        for (int64_t d = 0; d < matrix.depth; ++d) {
          const T* source = weight + matrix.place(0, d, lane);
          store<kLanes>(lanes == kLanes ? load<kLanes>(source) : load_some<kLanes>(source, lanes),
                        packed + d * width + column);
        }
        continue;
      }
      for (int64_t d = 0; d < matrix.depth; d += kLanes) {
        each_turned<kLanes>(weight + matrix.place(0, d, lane), matrix.lane_stride, lanes,
                            smaller(kLanes, matrix.depth - d), [&](int64_t i, Vector<kLanes> values) {
                              store<kLanes>(values, packed + (d + i) * width + column);
                            });
      }
    }
    packed += matrix.depth * width;
  }
}

/// output = input times the weights, which `matrix` selects from `weight` with its rows as depth, plus bias
/// unless it is null
template <class T, int kLanes>
void pointwise_convolution(const ConvolutionShape& shape, const T* input, const T* weight,
                           const WeightMatrix& matrix, const T* bias, const ConvolutionOutput<T>& output) {
  const int64_t padded = divided_up(matrix.lanes, kLanes) * kLanes;
  const int64_t places = places_of(shape);
  const int64_t chunk = pointwise_chunk(shape);
  Workspace workspace;
  float* weights = workspace.take(matrix.depth * padded);
  float* packed_bias = workspace.take(padded);
  const PlaceReader<kLanes, T> reader(workspace, input, matrix.depth, matrix.depth, chunk);
  pack_panels<kLanes>(matrix, weight, weights);
  pack_bias(bias, matrix.lanes, padded, packed_bias);
  const OutputRule rule(output, 1, 0);
  const Panels panels{padded / kLanes};
  for (int64_t begin = 0; begin < places; begin += chunk) {
    const int64_t count = smaller(chunk, places - begin);
    const float* source = reader.read(begin, count);
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t lane = panels.begin(panel) * kLanes;
      with_width(panels.width(panel), [&](auto vectors) {
        each_row_block(count, [&](int64_t place, auto rows) {
          if (panel == 0) {
            fetch(input + (begin + chunk + place) * matrix.depth, rows * matrix.depth);
            fetch<kToWrite>(output.data + (begin + chunk + place) * output.step, rows * output.step);
          }
          const Rows left{source + place * matrix.depth, matrix.depth, 1, 0, matrix.depth};
          store_pixels(multiply<kLanes, rows, vectors>(left, weights + lane * matrix.depth),
                       packed_bias + lane, output.data + (begin + place) * output.step + lane, rule,
                       matrix.lanes - lane);
        });
      });
    }
  }
}

/// sums [rows, padded] to target [rows, columns], or transposed, [columns, rows]
template <int kLanes>
inline void write_sums(const float* sums, int64_t rows, int64_t columns, int64_t padded, bool transposed,
                       float* target) {
  if (!transposed) {
    for (int64_t row = 0; row < rows; ++row)
      copy_values<kLanes>(sums + row * padded, columns, target + row * columns);
    return;
  }
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t some = smaller(kLanes, rows - row);
    for (int64_t column = 0; column < columns; column += kLanes) {
      each_turned<kLanes>(sums + row * padded + column, padded, some, smaller(kLanes, columns - column),
                          [&](int64_t i, Vector<kLanes> values) {
                            float* place = target + (column + i) * rows + row;
                            some == kLanes ? store<kLanes>(values, place)
                                           : store_some<kLanes>(values, place, some);
                          });
    }
  }
}

template <int kLanes>
inline void add_channels(const float* places, int64_t count, int64_t stride, int64_t channels, float* sums) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Vector<kLanes> total = load<kLanes>(sums + c);
    for (int64_t place = 0; place < count; ++place) {
      const float* values = places + place * stride + c;
      total += channels - c >= kLanes ? load<kLanes>(values) : load_some<kLanes>(values, channels - c);
    }
    store<kLanes>(total, sums + c);
  }
}

/// Whether the places of a panel take less memory than all sums: then it is better to read the places again
/// for each tile of sums than to read and write the sums again for each chunk of places.
inline bool has_few_places(const ConvolutionShape& shape) {
  constexpr int64_t kPanel = 48, kCached = 16384;  // floats
  const int64_t weights = shape.channels * shape.filters;
  return weights > kCached && places_of(shape) * kPanel <= weights;
}

/// For has_few_places(): a tile of sums over all places at a time, in registers. The bits are those of
/// pointwise_weight_gradient and a sum over the shards in the tree.
template <class T, int kLanes>
void pointwise_weight_gradient_by_tiles(const ConvolutionShape& shape, const T* gradient, const T* input,
                                        const WeightGradients& target) {
  const bool by_filters = shape.filters >= shape.channels;
  const int64_t rows = by_filters ? shape.channels : shape.filters;
  const int64_t columns = by_filters ? shape.filters : shape.channels;
  const int64_t padded = divided_up(columns, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t places = places_of(shape);
  const int64_t of_shard = places / shape.shards;
  const int64_t chunk = pointwise_chunk(shape);
  Workspace workspace;
  float* sums = workspace.take(rows * padded);
  const PlaceReader<kLanes, T> left(workspace, by_filters ? input : gradient, rows, rows, places);
  const PlaceReader<kLanes, T> right(workspace, by_filters ? gradient : input, columns, padded, places);
  const float* scalars = left.read(0, places);
  const float* vectors = right.read(0, places);
  const Panels panels{padded / kLanes};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t lane = panels.begin(panel) * kLanes;
    with_width(panels.width(panel), [&](auto width) {
      each_row_block(rows, [&](int64_t row, auto count) {
        const auto sum_of_shard = [&](int64_t shard) {
          Tile<kLanes, count, width> sum{};
          for (int64_t begin = shard * of_shard; begin < (shard + 1) * of_shard; begin += chunk) {
            sum += products_of<kLanes, count, width>({scalars + begin * rows + row, 0, rows,
                                                      vectors + begin * padded + lane, 0, padded, 1,
                                                      smaller(chunk, (shard + 1) * of_shard - begin)});
          }
          return sum;
        };
        store_rows(sum_in_registers<2>(0, shape.shards, sum_of_shard), sums + row * padded + lane, padded);
      });
    });
  }
  write_sums<kLanes>(sums, rows, columns, padded, by_filters, target.weight);
  if (target.bias == nullptr) return;
  float* bias_sums = workspace.take(padded_filters);
  sum_shards(0, shape.shards, padded_filters, bias_sums, [&](int64_t shard, float* own) {
    clear(own, padded_filters);
    const int64_t stride = by_filters ? padded : rows;
    add_channels<kLanes>((by_filters ? vectors : scalars) + shard * of_shard * stride, of_shard, stride,
                         shape.filters, own);
  });
  copy_values<kLanes>(bias_sums, shape.filters, target.bias);
}

/// Of one shard. It changes no bit which of the two has its channels in vectors.
template <class T, int kLanes>
void pointwise_weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input,
                               const WeightGradients& target) {
  const bool by_filters = shape.filters >= shape.channels;
  const int64_t rows = by_filters ? shape.channels : shape.filters;
  const int64_t columns = by_filters ? shape.filters : shape.channels;
  const int64_t padded = divided_up(columns, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t places = places_of(shape);
  const int64_t chunk = pointwise_chunk(shape);
  Workspace workspace;
  float* sums = workspace.take(rows * padded);
  float* bias_sums = workspace.take(padded_filters);
  const PlaceReader<kLanes, T> left(workspace, by_filters ? input : gradient, rows, rows, chunk);
  const PlaceReader<kLanes, T> right(workspace, by_filters ? gradient : input, columns, padded, chunk);
  clear(sums, rows * padded);
  clear(bias_sums, padded_filters);
  for (int64_t begin = 0; begin < places; begin += chunk) {
    const int64_t count = smaller(chunk, places - begin);
    const float* scalars = left.read(begin, count);
    const float* vectors = right.read(begin, count);
    fetch(input + (begin + chunk) * shape.channels, count * shape.channels);
    fetch(gradient + (begin + chunk) * shape.filters, count * shape.filters);
    add_all_products<kLanes>({scalars, 0, rows, vectors, 0, padded, 1, count}, rows, padded / kLanes, sums,
                             padded);
    add_channels<kLanes>(by_filters ? vectors : scalars, count, by_filters ? padded : rows, shape.filters,
                         bias_sums);
  }
  write_sums<kLanes>(sums, rows, columns, padded, by_filters, target.weight);
  if (target.bias != nullptr) copy_values<kLanes>(bias_sums, shape.filters, target.bias);
}

}  // namespace
}  // namespace lockstep::kernels
