// Convolutions by tiles of 4 x 4 outputs: transform, a matrix product for each point of a tile (36 or 64), transform back.
#pragma once

#include "lockstep/nn/direct/planes.h"
#include "lockstep/nn/direct/register_tiles.h"
#include "lockstep/nn/direct/winograd_transforms.h"
#include "lockstep/nn/direct/workspace.h"

namespace lockstep::nn::direct {
namespace {

/// Tiles of 4 x 4 outputs that cover the pictures of a batch.
struct TileGrid {
  int64_t rows;
  int64_t columns;
  int64_t batch;

  explicit TileGrid(const ConvolutionShape& shape)
      : rows(divided_up(shape.output_height(), kOutput)), columns(divided_up(shape.output_width(), kOutput)), batch(shape.batch) {}

  int64_t in_picture() const { return rows * columns; }
  int64_t count() const { return batch * in_picture(); }
};

struct TilePlace {
  int64_t picture;
  int64_t row;
  int64_t column;

  TilePlace(const TileGrid& grid, int64_t tile)
      : picture(tile / grid.in_picture()), row(tile % grid.in_picture() / grid.columns), column(tile % grid.columns) {}

  void advance(const TileGrid& grid) {
    if (++column < grid.columns) return;
    column = 0;
    if (++row < grid.rows) return;
    row = 0;
    ++picture;
  }
};

/// Transformed tiles: [chunk][vectors][points][lanes], so that a tile's points are at fixed distances from each other.
template <int kLanes, int kSide>
struct PointTiles {
  static constexpr int64_t kVectorStride = kSide * kSide * kLanes;

  float* data;
  int64_t vectors;

  static PointTiles take(Workspace& workspace, int64_t chunk, int64_t vectors) { return {workspace.take(chunk * stride_of(vectors)), vectors}; }
  // A cache line more than needed makes the stride an odd number of lines: a point's values spread over all sets of the cache.
  static int64_t stride_of(int64_t vectors) { return vectors * kVectorStride + 16; }
  int64_t stride() const { return stride_of(vectors); }
  float* tile(int64_t index) const { return data + index * stride(); }
  float* point(int64_t index) const { return data + index * kLanes; }
};

constexpr int64_t kSecondLevel = int64_t{1} << 17;
constexpr int64_t kThirdLevel = int64_t{1} << 20;

/// How many tiles go through the steps together: about as many as a cache with room for that many floats holds.
/// Sums end with a chunk, so its size must depend neither on the vectors' width nor on the number of registers.
inline int64_t chunk_size(const ConvolutionShape& shape, const TileGrid& grid, int64_t points, int64_t room) {
  constexpr int64_t kRound = 8;
  const int64_t floats_per_tile = (divided_up(shape.channels, 16) + divided_up(shape.filters, 16)) * 16 * points;
  const int64_t chunks = divided_up(grid.count(), larger(room / floats_per_tile, kRound));
  const int64_t even = divided_up(grid.count(), chunks);
  return divided_up(even, kRound) * kRound;
}

/// Planes with room for a picture with a border, and for all its tiles of kIn x kIn values, of which one begins every kOutput rows and columns.
template <int kLanes>
VectorPlanes<kLanes> take_planes(Workspace& workspace, const TileGrid& grid, const PictureSize& size, int64_t top, int64_t left, int64_t in) {
  VectorPlanes<kLanes> planes{};
  planes.height = larger((grid.rows - 1) * kOutput + in, size.height + top);
  planes.width = larger((grid.columns - 1) * kOutput + in, size.width + left);
  planes.count = divided_up(size.channels, kLanes);
  planes.data = workspace.take(planes.count * planes.size());
  clear(planes.data, planes.count * planes.size());
  return planes;
}

/// Transforms tiles of pictures; remembers which picture its planes hold, for chunks end anywhere.
template <int kLanes, int kSide, class Step, class T>
class TileReader {
 public:
  TileReader(Workspace& workspace, const TileGrid& grid, const PictureSize& size, int64_t top, int64_t left)
      : grid_(grid), size_(size), top_(top), left_(left), planes_(take_planes<kLanes>(workspace, grid, size, top, left, Step::kIn)) {}

  void read(const T* pictures, int64_t begin, int64_t count, const PointTiles<kLanes, kSide>& tiles) {
    TilePlace place(grid_, begin);
    for (int64_t i = 0; i < count; ++i, place.advance(grid_)) {
      if (place.picture != held_) {
        held_ = place.picture;
        fill(planes_, pictures + held_ * size_.size(), size_, top_, left_);
      }
      const float* corner = planes_.data + (place.row * planes_.width + place.column) * kOutput * kLanes;
      for (int64_t v = 0; v < planes_.count; ++v) read_tile(corner + v * planes_.size(), tiles.tile(i) + v * tiles.kVectorStride);
    }
  }

 private:
  void read_tile(const float* corner, float* target) const {
    const int64_t row = planes_.width * kLanes;
    transform<kLanes, Step>([&](int y, int x) { return load<kLanes>(corner + y * row + x * kLanes); },
                            [&](int y, int x, Vector<kLanes> value) { store<kLanes>(value, target + (y * kSide + x) * kLanes); });
  }

  TileGrid grid_;
  PictureSize size_;
  int64_t top_;
  int64_t left_;
  VectorPlanes<kLanes> planes_;
  int64_t held_ = -1;
};

/// The transpose of TileReader with InputStep: transforms tiles back and adds them where they overlap. Tiles come in order, and finish() after the last.
template <int kLanes, int kSide, class T>
class TileAdder {
 public:
  TileAdder(Workspace& workspace, const TileGrid& grid, const PictureSize& size, int64_t top, int64_t left, T* pictures)
      : grid_(grid), size_(size), top_(top), left_(left), pictures_(pictures), planes_(take_planes<kLanes>(workspace, grid, size, top, left, kSide)) {}

  void add(int64_t begin, int64_t count, const PointTiles<kLanes, kSide>& tiles) {
    TilePlace place(grid_, begin);
    for (int64_t i = 0; i < count; ++i, place.advance(grid_)) {
      if (place.picture != held_) {
        finish();
        clear(planes_.data, planes_.count * planes_.size());
        held_ = place.picture;
      }
      float* corner = planes_.data + (place.row * planes_.width + place.column) * kOutput * kLanes;
      for (int64_t v = 0; v < planes_.count; ++v) add_tile(tiles.tile(i) + v * tiles.kVectorStride, corner + v * planes_.size());
    }
  }

  void finish() const { copy_out(planes_, size_, top_, left_, pictures_ + held_ * size_.size()); }

 private:
  void add_tile(const float* source, float* corner) const {
    const int64_t row = planes_.width * kLanes;
    transform<kLanes, InputGradientStep<kSide>>([&](int y, int x) { return load<kLanes>(source + (y * kSide + x) * kLanes); },
                                                [&](int y, int x, Vector<kLanes> value) {
                                                  float* target = corner + y * row + x * kLanes;
                                                  store<kLanes>(load<kLanes>(target) + value, target);
                                                });
  }

  TileGrid grid_;
  PictureSize size_;
  int64_t top_;
  int64_t left_;
  T* pictures_;
  VectorPlanes<kLanes> planes_;
  int64_t held_ = 0;  // its planes are zero
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
        transform<kLanes, WeightStep<kKernel>>([&](int y, int x) { return load<kLanes>(source + (y * kKernel + x) * size); },
                                               [&](int y, int x, Vector<kLanes> value) { store<kLanes>(value, target + (y * kSide + x) * size); });
      }
    }
  }
}

/// right = left * weights, for one point; weights are [panel][depth][the panel's lanes].
template <int kLanes, int kSide>
inline void multiply_point(const PointTiles<kLanes, kSide>& left, const PointTiles<kLanes, kSide>& right, int64_t point, int64_t rows, int64_t depth, const float* weights) {
  constexpr int64_t kStride = PointTiles<kLanes, kSide>::kVectorStride;
  const Panels panels{right.vectors};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t vector = panels.begin(panel);
    with_width(panels.width(panel), [&](auto width) {
      each_row_block(rows, [&](int64_t row, auto count) {
        const Rows part{left.point(point) + row * left.stride(), left.stride(), depth / kLanes, kStride, kLanes, depth % kLanes};
        store_rows(multiply<kLanes, count, width>(part, weights + vector * kLanes * depth), right.point(point) + row * right.stride() + vector * kStride,
                   right.stride(), kStride);
      });
    });
  }
}

/// The same for every point; weights are `point_weights` apart.
template <int kLanes, int kSide>
inline void multiply_points(const PointTiles<kLanes, kSide>& left, const PointTiles<kLanes, kSide>& right, int64_t rows, int64_t depth, const float* weights, int64_t point_weights) {
  for (int64_t point = 0; point < kSide * kSide; ++point) multiply_point(left, right, point, rows, depth, weights + point * point_weights);
}

/// Adds to sums [filters, padded channels] the products of the gradients' and the inputs' tiles, for one point.
template <int kLanes, int kSide>
inline void add_point_products(const PointTiles<kLanes, kSide>& gradients, const PointTiles<kLanes, kSide>& inputs, int64_t point, int64_t tiles,
                               int64_t filters, float* sums) {
  constexpr int64_t kStride = PointTiles<kLanes, kSide>::kVectorStride;
  const int64_t padded = inputs.vectors * kLanes;
  for (int64_t vector = 0; vector < gradients.vectors; ++vector) {
    const int64_t filter = vector * kLanes;
    const Pairs pairs{gradients.point(point) + vector * kStride, 0, gradients.stride(), inputs.point(point), 0, inputs.stride(), kStride, 1, tiles};
    add_all_products<kLanes>(pairs, smaller(kLanes, filters - filter), inputs.vectors, sums + filter * padded, padded);
  }
}

/// How much of a tile lies in the picture, and of its vector in the channels.
struct Extent {
  int64_t rows;
  int64_t columns;
  int64_t channels;
};

template <int kLanes, int kSide, bool kWholeTile, bool kWholeVector, class T>
inline void write_tile(const float* source, Vector<kLanes> bias, T* corner, const PictureSize& size, const Extent& extent) {
  const int64_t row = size.width * size.channels;
  transform<kLanes, OutputStep<kSide>>([&](int y, int x) { return load<kLanes>(source + (y * kSide + x) * kLanes); },
                                         [&](int y, int x, Vector<kLanes> value) {
                                           if (!kWholeTile && (y >= extent.rows || x >= extent.columns)) return;
                                           T* target = corner + y * row + x * size.channels;
                                           if constexpr (kWholeVector) {
                                             store<kLanes>(value + bias, target);
                                           } else {
                                             store_some<kLanes>(value + bias, target, extent.channels);
                                           }
                                         });
}

template <int kLanes, int kSide, class T>
inline void write_any_tile(const float* source, const float* bias, T* corner, const PictureSize& size, const Extent& extent) {
  const Vector<kLanes> shift = load<kLanes>(bias);
  const bool whole_tile = extent.rows >= kOutput && extent.columns >= kOutput;
  if (whole_tile && extent.channels >= kLanes) return write_tile<kLanes, kSide, true, true>(source, shift, corner, size, extent);
  if (whole_tile) return write_tile<kLanes, kSide, true, false>(source, shift, corner, size, extent);
  if (extent.channels >= kLanes) return write_tile<kLanes, kSide, false, true>(source, shift, corner, size, extent);
  write_tile<kLanes, kSide, false, false>(source, shift, corner, size, extent);
}

template <int kLanes, int kSide, class T>
inline void write_tiles(const TileGrid& grid, const PictureSize& size, const PointTiles<kLanes, kSide>& tiles, int64_t begin, int64_t count,
                        const float* bias, T* output) {
  TilePlace place(grid, begin);
  for (int64_t i = 0; i < count; ++i, place.advance(grid)) {
    const int64_t y = place.row * kOutput;
    const int64_t x = place.column * kOutput;
    T* corner = output + place.picture * size.size() + (y * size.width + x) * size.channels;
    for (int64_t v = 0; v < tiles.vectors; ++v) {
      const int64_t c = v * kLanes;
      write_any_tile<kLanes, kSide>(tiles.tile(i) + v * tiles.kVectorStride, bias + c, corner + c, size, {size.height - y, size.width - x, size.channels - c});
    }
  }
}

/// output = convolution of input with the weights that `matrix` (filters as lanes) finds in `weight`, plus bias unless null
template <class T, int kLanes, int kKernel>
void winograd_convolution(const ConvolutionShape& shape, const T* input, const T* weight, const WeightMatrix& matrix, const T* bias, T* output) {
  constexpr int kSide = side_of(kKernel);
  constexpr int64_t kPoints = kSide * kSide;
  const TileGrid grid(shape);
  const int64_t padded_channels = divided_up(shape.channels, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t point_weights = shape.channels * padded_filters;
  const int64_t chunk = chunk_size(shape, grid, kPoints, kSecondLevel);
  Workspace workspace;
  float* packed = workspace.take(matrix.taps * point_weights);
  float* weights = workspace.take(kPoints * point_weights);
  float* packed_bias = workspace.take(padded_filters);
  const auto inputs = PointTiles<kLanes, kSide>::take(workspace, chunk, padded_channels / kLanes);
  const auto outputs = PointTiles<kLanes, kSide>::take(workspace, chunk, padded_filters / kLanes);
  const PictureSize input_size{shape.height, shape.width, shape.channels};
  const PictureSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, InputStep<kSide>, T> reader(workspace, grid, input_size, shape.padding_height, shape.padding_width);
  pack_weights(matrix, weight, padded_filters, packed);
  pack_bias(bias, shape.filters, padded_filters, packed_bias);
  transform_weights<kLanes, kKernel>(packed, shape.channels, padded_filters, weights);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    reader.read(input, begin, count, inputs);
    multiply_points(inputs, outputs, count, shape.channels, weights, point_weights);
    write_tiles(grid, output_size, outputs, begin, count, packed_bias, output);
  }
}

/// input_gradient = the transpose of winograd_convolution: what is multiplied is the tiles of the output, fewer than the padded gradient's where the
/// kernel is larger than twice the padding and one.
template <class T, int kLanes, int kKernel>
void winograd_input_gradient(const ConvolutionShape& shape, const T* gradient, const T* weight, T* input_gradient) {
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
  const auto gradients = PointTiles<kLanes, kSide>::take(workspace, chunk, divided_up(shape.filters, kLanes));
  const auto inputs = PointTiles<kLanes, kSide>::take(workspace, chunk, padded_channels / kLanes);
  const PictureSize input_size{shape.height, shape.width, shape.channels};
  const PictureSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, GradientStep<kSide>, T> reader(workspace, grid, output_size, 0, 0);
  TileAdder<kLanes, kSide, T> adder(workspace, grid, input_size, shape.padding_height, shape.padding_width, input_gradient);
  pack_weights(matrix, weight, padded_channels, packed);
  transform_weights<kLanes, kKernel>(packed, shape.filters, padded_channels, weights);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    reader.read(gradient, begin, count, gradients);
    multiply_points(gradients, inputs, count, shape.filters, weights, point_weights);
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
    transform<kLanes, WeightGradientStep<kKernel>>([&](int y, int x) { return load<kLanes>(points + (y * kSide + x) * size + i); },
                                                   [&](int y, int x, Vector<kLanes> value) { store<kLanes>(value, packed + (y * kKernel + x) * size + i); });
  }
}

template <class T, int kLanes, int kKernel>
void winograd_weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input, float* weight_gradient, float* bias_gradient) {
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
  const auto inputs = PointTiles<kLanes, kSide>::take(workspace, chunk, padded_channels / kLanes);
  const auto gradients = PointTiles<kLanes, kSide>::take(workspace, chunk, padded_filters / kLanes);
  const PictureSize input_size{shape.height, shape.width, shape.channels};
  const PictureSize output_size{shape.output_height(), shape.output_width(), shape.filters};
  TileReader<kLanes, kSide, InputStep<kSide>, T> input_reader(workspace, grid, input_size, shape.padding_height, shape.padding_width);
  TileReader<kLanes, kSide, GradientStep<kSide>, T> gradient_reader(workspace, grid, output_size, 0, 0);
  clear(sums, kPoints * point_weights);
  clear(bias_sums, padded_filters);
  for (int64_t begin = 0; begin < grid.count(); begin += chunk) {
    const int64_t count = smaller(chunk, grid.count() - begin);
    input_reader.read(input, begin, count, inputs);
    gradient_reader.read(gradient, begin, count, gradients);
    for (int64_t point = 0; point < kPoints; ++point) {
      add_point_products(gradients, inputs, point, count, shape.filters, sums + point * point_weights);
    }
    for (int64_t v = 0; v < gradients.vectors; ++v) {
      add_rows<kLanes>(gradients.point(kSumPoint) + v * gradients.kVectorStride, count, gradients.stride(), bias_sums + v * kLanes);
    }
  }
  transform_weight_gradient<kLanes, kKernel>(sums, shape.filters, padded_channels, packed);
  unpack_weights(matrix, packed, padded_channels, weight_gradient);
  if (bias_gradient != nullptr) copy_values<kLanes>(bias_sums, shape.filters, bias_gradient);
}

}  // namespace
}  // namespace lockstep::nn::direct
