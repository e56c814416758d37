// Images as tiles of 4 x 4 outputs for Winograd's algorithm: the grid of tiles, reading and transforming
// them, and transforming back and writing.
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

/// Neighbouring tiles in a row of an image.
struct TileRun {
  int64_t image;
  int64_t row;
  int64_t column;  ///< of the first tile
  int64_t begin;   ///< the first tile, counted from the first of the chunk
  int64_t count;
};

/// Calls visit(run) for `count` tiles beginning at `begin`, in order.
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

/// Transformed tiles: [points][chunk of tiles, channels]. Whole vectors are read and written for any number
/// of channels: tiles are written in order, so the last vector of a tile may overlap the next tile, and each
/// point has room for a vector after its last tile.
struct PointTiles {
  float* data;
  int64_t channels;
  int64_t point_stride;

  static PointTiles take(Workspace& workspace, int64_t chunk, int64_t channels, int64_t points) {
    // An odd number of cache lines, so that the points of a tile are in different sets of the cache.
    const int64_t stride = (divided_up(chunk * channels + kWidest, kLine) | 1) * kLine;
    return {workspace.take(points * stride), channels, stride};
  }
  float* tile(int64_t point, int64_t index) const { return data + point * point_stride + index * channels; }

 private:
  static constexpr int64_t kLine = 16;  // floats
};

constexpr int64_t kSecondLevel = int64_t{1} << 17;
constexpr int64_t kThirdLevel = int64_t{1} << 20;

/// The number of tiles that are computed together: about as many as fit into a cache with room for `room`
/// floats. Sums end with a chunk, so the size must not depend on the width of the vectors or on the number of
/// registers.
inline int64_t chunk_size(const ConvolutionShape& shape, const TileGrid& grid, int64_t points, int64_t room) {
  constexpr int64_t kRound = 8;
  const int64_t floats_per_tile =
      (divided_up(shape.channels, 16) + divided_up(shape.filters, 16)) * 16 * points;
  const int64_t chunks = divided_up(grid.count(), larger(room / floats_per_tile, kRound));
  const int64_t even = divided_up(grid.count(), chunks);
  return divided_up(even, kRound) * kRound;
}

/// `height` rows of zeros, with room for the columns of an image with a border, and for all tiles: they are
/// `side` columns wide, and one begins every kOutput columns.
inline ColumnGroups take_groups(Workspace& workspace, const TileGrid& grid, const PlaneSize& size,
                                int64_t height, int64_t left, int64_t side) {
  const int64_t width = larger((grid.columns - 1) * kOutput + side, size.width + left);
  ColumnGroups groups{nullptr, height, divided_up(width, kOutput), size.channels};
  groups.data = workspace.take(groups.size());
  clear(groups.data, groups.size());
  return groups;
}

/// Transforms tiles of images. It keeps the image rows of one row of tiles, which stay in the first-level
/// cache, also from chunk to chunk, because a chunk may end in the middle of a row of tiles.
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
  // Image rows that also belong to the previous row of tiles are moved.
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
          // The second cache line of the next vector, which the processor prefetches late.
          __builtin_prefetch(place + 2 * kLanes - 1, 1);
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
/// are added in order; call finish() after the last one.
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
  // A tile shares its first columns with the tile on its left. Columns are written from right to left, so
  // that the shared columns get the left tile's values first: the sums are the same as for one tile after the
  // other.
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
  int64_t held_ = 0;  // the groups are zero at first
};

/// The part of a tile that is in the image, and the part of a vector that has channels.
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

}  // namespace
}  // namespace lockstep::kernels
