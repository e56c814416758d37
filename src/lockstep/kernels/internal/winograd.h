// Convolutions by tiles of 4 x 4 outputs: transform, a matrix product for each point of a tile (36 or 64),
// transform back.
#pragma once

#include "lockstep/kernels/internal/planes.h"
#include "lockstep/kernels/internal/register_tiles.h"
#include "lockstep/kernels/internal/winograd_transforms.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

/// Tiles of 4 x 4 outputs that cover the images of a batch.
struct TileGrid {
  int64_t rows;
  int64_t columns;
  int64_t batch;

  explicit TileGrid(const ConvolutionShape& shape)
      : rows(divided_up(shape.output_height(), kOutput)),
        columns(divided_up(shape.output_width(), kOutput)),
        batch(shape.batch) {}

  int64_t in_image() const { return rows * columns; }
  int64_t count() const { return batch * in_image(); }
};

/// Tiles side by side in a row of an image.
struct TileRun {
  int64_t image;
  int64_t row;
  int64_t column;  ///< of the first
  int64_t begin;   ///< the first, counted from the chunk's first
  int64_t count;
};

/// visit(run) for all tiles from `begin` on, in order.
template <class Visit>
inline void each_run(const TileGrid& grid, int64_t begin, int64_t count, Visit&& visit) {
  for (int64_t i = 0; i < count;) {
    const int64_t tile = begin + i;
    const int64_t column = tile % grid.columns;
    const int64_t length = smaller(grid.columns - column, count - i);
    visit(TileRun{tile / grid.in_image(), tile % grid.in_image() / grid.columns, column, i, length});
    i += length;
  }
}

/// Transformed tiles: [points][chunk of tiles, channels]. Whole vectors are read and written whatever the
/// number of channels: tiles are written in order, so that a tile's last vector may reach into the next one,
/// and a point has room for a vector beyond its last tile.
struct PointTiles {
  float* data;
  int64_t channels;
  int64_t point_stride;

  static PointTiles take(Workspace& workspace, int64_t chunk, int64_t channels, int64_t points) {
    // An odd number of cache lines: what the points have of a tile spreads over all sets of the cache.
    const int64_t stride = (divided_up(chunk * channels + kWidest, kLine) | 1) * kLine;
    return {workspace.take(points * stride), channels, stride};
  }
  float* tile(int64_t point, int64_t index) const { return data + point * point_stride + index * channels; }

 private:
  static constexpr int64_t kLine = 16;  // floats
};

constexpr int64_t kSecondLevel = int64_t{1} << 17;
constexpr int64_t kThirdLevel = int64_t{1} << 20;

/// How many tiles go through the steps together: about as many as a cache with room for that many floats
/// holds. Sums end with a chunk, so its size must depend neither on the vectors' width nor on the number of
/// registers.
inline int64_t chunk_size(const ConvolutionShape& shape, const TileGrid& grid, int64_t points, int64_t room) {
  constexpr int64_t kRound = 8;
  const int64_t floats_per_tile =
      (divided_up(shape.channels, 16) + divided_up(shape.filters, 16)) * 16 * points;
  const int64_t chunks = divided_up(grid.count(), larger(room / floats_per_tile, kRound));
  const int64_t even = divided_up(grid.count(), chunks);
  return divided_up(even, kRound) * kRound;
}

/// `height` rows, of zeros, with room for an image's columns with a border, and for all tiles that are
/// `side` columns wide, of which one begins every kOutput.
inline ColumnGroups take_groups(Workspace& workspace, const TileGrid& grid, const PlaneSize& size,
                                int64_t height, int64_t left, int64_t side) {
  const int64_t width = larger((grid.columns - 1) * kOutput + side, size.width + left);
  ColumnGroups groups{nullptr, height, divided_up(width, kOutput), size.channels};
  groups.data = workspace.take(groups.size());
  clear(groups.data, groups.size());
  return groups;
}

/// Transforms tiles of images. It holds the rows of one row of tiles, which stay in the first-level cache,
/// and remembers which, for chunks end anywhere.
template <int kLanes, int kSide, class Step, class T>
class TileReader {
 public:
  TileReader(Workspace& workspace, const TileGrid& grid, const PlaneSize& size, int64_t top, int64_t left)
      : grid_(grid),
        size_(size),
        top_(top),
        left_(left),
        rows_(take_groups(workspace, grid, size, Step::kIn, left, Step::kIn)) {}

  void read(const T* images, int64_t begin, int64_t count, const PointTiles& tiles) {
    each_run(grid_, begin, count, [&](const TileRun& run) {
      hold(images, run);
      const float* source = rows_.place(0, run.column * kOutput);
      float* target = tiles.tile(0, run.begin);
      for (int64_t i = 0; i < run.count * size_.channels; i += kLanes)
        read_vector(source + i, target + i, tiles.point_stride);
    });
  }

 private:
  // Rows that the row of tiles above has too are moved.
  void hold(const T* images, const TileRun& run) {
    const int64_t tile_row = run.image * grid_.rows + run.row;
    if (tile_row == held_) return;
    constexpr int64_t kShared = Step::kIn - kOutput;
    const bool follows = run.row > 0 && tile_row == held_ + 1;
    const T* image = images + run.image * size_.size();
    held_ = tile_row;
    if (follows && kShared > 0)
      std::memcpy(rows_.data, rows_.place(kOutput, 0), kShared * rows_.row() * sizeof(float));
    for (int64_t y = follows ? kShared : 0; y < Step::kIn; ++y) {
      const int64_t source = run.row * kOutput + y - top_;
      float* target = rows_.place(y, 0);
      if (source < 0 || source >= size_.height) {
        clear(target, rows_.row());
      } else {
        fill_row<kLanes>(rows_, image + source * size_.width * size_.channels, size_, y, left_);
      }
    }
  }

  void read_vector(const float* source, float* target, int64_t point_stride) const {
    transform<kLanes, Step>(
        [=, groups = rows_](int y, int x) { return load<kLanes>(source + groups.offset(y, x)); },
        [=](int y, int x, Vector<kLanes> value) {
          float* place = target + (y * kSide + x) * point_stride;
          store<kLanes>(value, place);
          __builtin_prefetch(place + 2 * kLanes - 1,
                             1);  // the next vector's second cache line, which the processor asks for late
        });
  }

  TileGrid grid_;
  PlaneSize size_;
  int64_t top_;
  int64_t left_;
  ColumnGroups rows_;
  int64_t held_ = -1;
};

/// The transpose of TileReader with InputStep: transforms tiles back and adds them where they overlap. Tiles
/// come in order, and finish() after the last.
template <int kLanes, int kSide, class T>
class TileAdder {
 public:
  TileAdder(Workspace& workspace, const TileGrid& grid, const PlaneSize& size, int64_t top, int64_t left,
            T* images)
      : grid_(grid),
        size_(size),
        top_(top),
        left_(left),
        images_(images),
        groups_(take_groups(workspace, grid, size,
                            larger((grid.rows - 1) * kOutput + kSide, size.height + top), left, kSide)) {}

  void add(int64_t begin, int64_t count, const PointTiles& tiles) {
    each_run(grid_, begin, count, [&](const TileRun& run) {
      if (run.image != held_) {
        finish();
        clear(groups_.data, groups_.size());
        held_ = run.image;
      }
      const float* source = tiles.tile(0, run.begin);
      float* target = groups_.place(run.row * kOutput, run.column * kOutput);
      const int64_t floats = run.count * size_.channels;
      int64_t i = 0;
      for (; i + kLanes <= floats; i += kLanes) {
        add_vector([](const float* values) { return load<kLanes>(values); }, source + i, tiles.point_stride,
                   target + i);
      }
      if (i == floats) return;
      add_vector([&](const float* values) { return load_some<kLanes>(values, floats - i); }, source + i,
                 tiles.point_stride, target + i);
    });
  }

  void finish() const { copy_out<kLanes>(groups_, size_, top_, left_, images_ + held_ * size_.size()); }

 private:
  // What a tile has in common with the one on its left, its first columns, gets that one's values first: the
  // sums are those of one tile after the other.
  template <class Load>
  void add_vector(Load&& load_values, const float* source, int64_t point_stride, float* target) const {
    Vector<kLanes> values[kSide][kSide];
    transform<kLanes, InputGradientStep<kSide>>(
        [&](int y, int x) { return load_values(source + (y * kSide + x) * point_stride); },
        [&](int y, int x, Vector<kLanes> value) { values[y][x] = value; });
    for (int y = 0; y < kSide; ++y) {
      for (int x = kSide - 1; x >= 0; --x) {
        float* place = target + groups_.offset(y, x);
        store<kLanes>(load<kLanes>(place) + values[y][x], place);
      }
    }
  }

  TileGrid grid_;
  PlaneSize size_;
  int64_t top_;
  int64_t left_;
  T* images_;
  ColumnGroups groups_;
  int64_t held_ = 0;  // its places are zero
};

/// packed [taps, depth, padded] to [points][panel][depth][the panel's lanes]
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
  // The last panel's vectors may reach into the next tile's first channels, so these come after it.
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

/// Adds to sums [filters, padded channels] the products of the gradients' and the inputs' tiles, for one
/// point.
template <int kLanes>
inline void add_point_products(const PointTiles& gradients, const PointTiles& inputs, int64_t point,
                               int64_t tiles, float* sums) {
  const int64_t vectors = divided_up(inputs.channels, kLanes);
  const int64_t stride = vectors * kLanes;
  const Pairs pairs{
      gradients.tile(point, 0), 0, gradients.channels, inputs.tile(point, 0), 0, inputs.channels, 1, tiles};
#if defined(__AVX512F__)
  const int64_t whole = inputs.channels / kLanes;
  const int64_t rest = inputs.channels % kLanes;
  if (kLanes == 16 && rest > 0 && rest <= 4 && gradients.channels % 4 == 0) {
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
  add_all_products<kLanes>(pairs, gradients.channels, vectors, sums, stride);
}

/// How much of a tile lies in the image, and of its vector in the channels.
struct Extent {
  int64_t rows;
  int64_t columns;
  int64_t channels;
};

template <int kLanes, int kSide, bool kWholeTile, bool kWholeVector, class T>
inline void write_tile(const float* source, int64_t point_stride, Vector<kLanes> bias, T* corner,
                       const OutputRule& rule, const Extent& extent) {
  const Vector<kLanes> least = splat<kLanes>(rule.least);
  transform<kLanes, OutputStep<kSide>>(
      [=](int y, int x) { return load<kLanes>(source + (y * kSide + x) * point_stride); },
      [&](int y, int x, Vector<kLanes> value) {
        if (!kWholeTile && (y >= extent.rows || x >= extent.columns)) return;
        T* target = corner + y * rule.row + x * rule.column;
        __builtin_prefetch(target + kOutput * rule.row, 1);  // of the tile below
        if constexpr (kWholeVector) {
          store<kLanes>(at_least(value + bias, least), target);
        } else {
          store_some<kLanes>(at_least(value + bias, least), target, extent.channels);
        }
      });
}

template <int kLanes, int kSide, class T>
inline void write_any_tile(const float* source, int64_t point_stride, const float* bias, T* corner,
                           const OutputRule& rule, const Extent& extent) {
  const bool whole_tile = extent.rows >= kOutput && extent.columns >= kOutput;
  const auto write = [&](auto lanes, auto whole_vector) {
    const Vector<lanes> shift = load<lanes>(bias);
    if (whole_tile)
      return write_tile<lanes, kSide, true, whole_vector>(source, point_stride, shift, corner, rule, extent);
    write_tile<lanes, kSide, false, whole_vector>(source, point_stride, shift, corner, rule, extent);
  };
  if (extent.channels >= kLanes) return write(std::integral_constant<int, kLanes>{}, std::true_type{});
  with_rest<kLanes>(extent.channels, [&](auto lanes) {
    if constexpr (lanes > 0) write(lanes, std::bool_constant<(lanes < kLanes)>{});
  });
}

template <int kLanes, int kSide, class T>
inline void write_tiles(const TileGrid& grid, const PlaneSize& size, const PointTiles& tiles, int64_t begin,
                        int64_t count, const float* bias, const ConvolutionOutput<T>& output) {
  const OutputRule rule(output, 1, size.width);
  each_run(grid, begin, count, [&](const TileRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t y = run.row * kOutput;
      const int64_t x = (run.column + i) * kOutput;
      T* corner = output.data + ((run.image * size.height + y) * size.width + x) * output.step;
      for (int64_t c = 0; c < size.channels; c += kLanes) {
        write_any_tile<kLanes, kSide>(tiles.tile(0, run.begin + i) + c, tiles.point_stride, bias + c,
                                      corner + c, rule, {size.height - y, size.width - x, size.channels - c});
      }
    }
  });
}

/// output = convolution of input with the weights that `matrix` (filters as lanes) finds in `weight`, plus
/// bias unless null
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

/// input_gradient = the transpose of winograd_convolution: what is multiplied is the tiles of the output,
/// fewer than the padded gradient's where the kernel is larger than twice the padding and one.
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

/// points [side * side][filters, padded] to packed [taps, filters, padded]
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

template <class T, int kLanes, int kKernel>
void winograd_weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input,
                              float* weight_gradient, float* bias_gradient) {
  constexpr int kSide = side_of(kKernel);
  constexpr int64_t kPoints = kSide * kSide;
  constexpr int kSumPoint = kSide + 1;  // at the point (1, 1) a tile's transform is its sum
  const TileGrid grid(shape);
  const int64_t padded_channels = divided_up(shape.channels, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t point_weights = shape.filters * padded_channels;
  const WeightMatrix matrix = weight_by_channels(shape);
  // Each chunk reads and writes all sums: if these leave the second-level cache, then seldom.
  const int64_t room = kPoints * shape.filters * shape.channels <= kSecondLevel ? kSecondLevel : kThirdLevel;
  const int64_t chunk = chunk_size(shape, grid, kPoints, room);
  Workspace workspace;
  float* packed = workspace.take(matrix.taps * point_weights);
  float* sums = workspace.take(kPoints * point_weights);
  float* bias_sums = workspace.take(padded_filters);
  const auto inputs = PointTiles::take(workspace, chunk, shape.channels, kPoints);
  const auto gradients = PointTiles::take(workspace, chunk, shape.filters, kPoints);
  const PlaneSize input_size{shape.height, shape.width, shape.channels};
  const PlaneSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, InputStep<kSide>, T> input_reader(workspace, grid, input_size,
                                                              shape.padding_height, shape.padding_width);
  TileReader<kLanes, kSide, GradientStep<kSide>, T> gradient_reader(workspace, grid, output_size, 0, 0);
  clear(sums, kPoints * point_weights);
  clear(bias_sums, padded_filters);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    input_reader.read(input, begin, count, inputs);
    gradient_reader.read(gradient, begin, count, gradients);
    for (int64_t point = 0; point < kPoints; ++point)
      add_point_products<kLanes>(gradients, inputs, point, count, sums + point * point_weights);
    for (int64_t lane = 0; lane < padded_filters; lane += kLanes) {
      add_rows<kLanes>(gradients.tile(kSumPoint, 0) + lane, count, gradients.channels, bias_sums + lane);
    }
  }
  transform_weight_gradient<kLanes, kKernel>(sums, shape.filters, padded_channels, packed);
  unpack_weights(matrix, packed, padded_channels, weight_gradient);
  if (bias_gradient != nullptr) copy_values<kLanes>(bias_sums, shape.filters, bias_gradient);
}

}  // namespace
}  // namespace lockstep::kernels
