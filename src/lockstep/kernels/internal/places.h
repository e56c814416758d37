// Convolutions place by place. For each place of the result, the rows of a product are the images of the
// batch, and only the points of the kernel that are in the image are multiplied. For small images, where
// oneDNN multiplies the padding too, and for strides.
#pragma once

#include <vector>

#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/planes.h"
#include "lockstep/kernels/internal/register_tiles.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

/// A place of the output, a place of the input on which it depends, and the point of the kernel between them.
struct Link {
  int64_t output;
  int64_t input;
  int64_t tap;
};

struct Group {
  int64_t begin;
  int64_t end;
};

/// All links of a convolution, in groups of equal `key`, which is a member of Link below `count`. The order
/// in a group does not change.
class Links {
 public:
  Links(const ConvolutionShape& shape, int64_t Link::*key, int64_t count)
      : groups_(static_cast<size_t>(count)) {
    each_link(shape, [&](const Link& link) { ++groups_[static_cast<size_t>(link.*key)].end; });
    int64_t begin = 0;
    for (Group& group : groups_) {
      group.begin = begin;
      begin += group.end;
      group.end = group.begin;
    }
    links_.resize(static_cast<size_t>(begin));
    each_link(shape, [&](const Link& link) {
      links_[static_cast<size_t>(groups_[static_cast<size_t>(link.*key)].end++)] = link;
    });
  }

  const Link* begin(int64_t group) const { return links_.data() + groups_[static_cast<size_t>(group)].begin; }
  int64_t count(int64_t group) const {
    return groups_[static_cast<size_t>(group)].end - groups_[static_cast<size_t>(group)].begin;
  }

 private:
  template <class Visit>
  static void each_link(const ConvolutionShape& shape, Visit&& visit) {
    for (int64_t y = 0; y < shape.output_height(); ++y)
      for (int64_t x = 0; x < shape.output_width(); ++x)
        for (int64_t ky = 0; ky < shape.kernel_height; ++ky)
          for (int64_t kx = 0; kx < shape.kernel_width; ++kx) {
            const int64_t row = y * shape.stride_height + ky - shape.padding_height;
            const int64_t column = x * shape.stride_width + kx - shape.padding_width;
            if (row < 0 || row >= shape.height || column < 0 || column >= shape.width) continue;
            visit(
                Link{y * shape.output_width() + x, row * shape.width + column, ky * shape.kernel_width + kx});
          }
  }

  std::vector<Group> groups_;
  std::vector<Link> links_;
};

/// Images as floats, `stride` floats for each place: the batch itself if possible, otherwise a copy with
/// zeros beyond the channels.
struct Images {
  const float* data;
  int64_t places;
  int64_t stride;

  int64_t size() const { return places * stride; }
};

template <int kLanes, class T>
inline Images images_of(Workspace& workspace, const T* source, int64_t batch, int64_t places,
                        int64_t channels) {
  const int64_t padded = divided_up(channels, kLanes) * kLanes;
  if constexpr (std::is_same_v<T, float>) {
    if (padded == channels) return {source, places, channels};
  }
  const Plane plane{workspace.take(batch * places * padded), batch * places, 1, padded};
  if (padded != channels) clear(plane.data, plane.size());
  fill<kLanes>(plane, source, {batch * places, 1, channels}, 0, 0);
  return {plane.data, places, padded};
}

/// Packs the weight as [panel][taps][depth][the panel's lanes]. Points of the kernel that no link has are
/// left out; the memory there is not written.
template <int kLanes, class T>
inline void pack_linked(const WeightMatrix& matrix, const Links& by_tap, const T* weight, int64_t padded,
                        float* packed) {
  constexpr int64_t kBlock = 8;  // of rows, so that the weights of all lanes stay in the first-level cache
  const Panels panels{padded / kLanes};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.width(panel) * kLanes;
    const int64_t first = panels.begin(panel) * kLanes;
    const int64_t lanes = smaller(width, matrix.lanes - first);
    for (int64_t begin = 0; begin < matrix.depth; begin += kBlock) {
      for (int64_t tap = 0; tap < matrix.taps; ++tap) {
        if (by_tap.count(tap) == 0) continue;
        for (int64_t d = begin; d < smaller(begin + kBlock, matrix.depth); ++d) {
          float* row = packed + first * matrix.taps * matrix.depth + (tap * matrix.depth + d) * width;
          const T* source = weight + matrix.place(tap, d, first);
          for (int64_t lane = 0; lane < lanes; ++lane)
            row[lane] = to_float(source[lane * matrix.lane_stride]);
          for (int64_t lane = lanes; lane < width; ++lane) row[lane] = 0;
        }
      }
    }
  }
}

/// One direction of a convolution: each place of the result is the sum over its links of a source place times
/// the weights of a point.
struct Direction {
  int64_t Link::*result;
  int64_t Link::*source;
  int64_t result_places;
  int64_t source_places;
};

inline Direction output_from_input(const ConvolutionShape& shape) {
  return {&Link::output, &Link::input, shape.output_height() * shape.output_width(),
          shape.height * shape.width};
}

inline Direction input_from_output(const ConvolutionShape& shape) {
  return {&Link::input, &Link::output, shape.height * shape.width,
          shape.output_height() * shape.output_width()};
}

template <class T, int kLanes>
void convolve_places(const ConvolutionShape& shape, const Direction& direction, const T* source,
                     const T* weight, const WeightMatrix& matrix, const T* bias,
                     const ConvolutionOutput<T>& result) {
  const int64_t padded = divided_up(matrix.lanes, kLanes) * kLanes;
  Workspace workspace;
  float* weights = workspace.take(matrix.taps * matrix.depth * padded);
  float* packed_bias = workspace.take(padded);
  const Images images =
      images_of<kLanes>(workspace, source, shape.batch, direction.source_places, matrix.depth);
  const Links links(shape, direction.result, direction.result_places);
  pack_linked<kLanes>(matrix, Links(shape, &Link::tap, matrix.taps), weight, padded, weights);
  pack_bias(bias, matrix.lanes, padded, packed_bias);
  const OutputRule next_image(result, direction.result_places, 0);
  const Panels panels{padded / kLanes};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t lane = panels.begin(panel) * kLanes;
    const float* panel_weights = weights + lane * matrix.taps * matrix.depth;
    with_width(panels.width(panel), [&](auto vectors) {
      for (int64_t place = 0; place < direction.result_places; ++place) {
        const Link* begin = links.begin(place);
        const Link* end = begin + links.count(place);
        each_row_block(shape.batch, [&](int64_t image, auto count) {
          const float* rows = images.data + image * images.size();
          Tile<kLanes, count, vectors> tile{};
          for (const Link* link = begin; link != end; ++link) {
            add_segment(rows + link->*direction.source * images.stride, images.size(), matrix.depth,
                        panel_weights + link->tap * matrix.depth * vectors * kLanes, tile);
          }
          store_pixels(tile, packed_bias + lane,
                       result.data + (image * direction.result_places + place) * result.step + lane,
                       next_image, matrix.lanes - lane);
        });
      }
    });
  }
}

/// sums[r][v] = sum over links and images [begin, end) of gradient[r] * input[v], for one point of the kernel
template <int kLanes, int kRows, int kVectors>
inline Tile<kLanes, kRows, kVectors> linked_products(const Link* links, int64_t count, Range images,
                                                     const Images& gradients, const Images& inputs) {
  Tile<kLanes, kRows, kVectors> tile{};
  for (int64_t i = 0; i < count; ++i) {
    const float* left = gradients.data + images.begin * gradients.size() + links[i].output * gradients.stride;
    const float* right = inputs.data + images.begin * inputs.size() + links[i].input * inputs.stride;
    for (int64_t image = images.begin; image < images.end;
         ++image, left += gradients.size(), right += inputs.size()) {
      Vector<kLanes> values[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) values[v] = load<kLanes>(right + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vector<kLanes> factor = splat<kLanes>(left[r]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          tile.values[r][v] = multiply_add(factor, values[v], tile.values[r][v]);
      }
    }
  }
  return tile;
}

/// Copies sums [filters, taps, padded channels] to the weight's order.
template <int kLanes>
inline void order_sums(const WeightMatrix& matrix, const Links& by_tap, const float* sums, int64_t padded,
                       float* weight_gradient) {
  for (int64_t filter = 0; filter < matrix.depth; ++filter) {
    for (int64_t tap = 0; tap < matrix.taps; ++tap) {
      const float* row = sums + (filter * matrix.taps + tap) * padded;
      float* target = weight_gradient + matrix.place(tap, filter, 0);
      const bool linked = by_tap.count(tap) > 0;
      for (int64_t c = 0; c < matrix.lanes; ++c) target[c * matrix.lane_stride] = linked ? row[c] : 0.0F;
    }
  }
}

template <class T, int kLanes>
void weight_gradient_of_places(const ConvolutionShape& shape, const T* gradient, const T* input,
                               float* weight_gradient, float* bias_gradient) {
  const WeightMatrix matrix = weight_by_channels(shape);
  const int64_t padded = divided_up(shape.channels, kLanes) * kLanes;
  const int64_t padded_filters = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t places = shape.output_height() * shape.output_width();
  const int64_t samples = shape.batch / shape.shards;
  Workspace workspace;
  float* sums = workspace.take(shape.filters * matrix.taps * padded);
  float* bias_sums = workspace.take(padded_filters);
  const Images gradients = images_of<kLanes>(workspace, gradient, shape.batch, places, shape.filters);
  const Images inputs =
      images_of<kLanes>(workspace, input, shape.batch, shape.height * shape.width, shape.channels);
  const Links links(shape, &Link::tap, matrix.taps);
  const Panels panels{padded / kLanes};
  for (int64_t tap = 0; tap < matrix.taps; ++tap) {
    for (int64_t panel = 0; links.count(tap) > 0 && panel < panels.count(); ++panel) {
      const int64_t lane = panels.begin(panel) * kLanes;
      with_width(panels.width(panel), [&](auto vectors) {
        each_row_block(shape.filters, [&](int64_t filter, auto count) {
          const Images left{gradients.data + filter, gradients.places, gradients.stride};
          const Images right{inputs.data + lane, inputs.places, inputs.stride};
          const auto of_shard = [&](int64_t shard) {
            return linked_products<kLanes, count, vectors>(
                links.begin(tap), links.count(tap), {shard * samples, (shard + 1) * samples}, left, right);
          };
          store_rows(sum_in_registers<2>(0, shape.shards, of_shard),
                     sums + (filter * matrix.taps + tap) * padded + lane, matrix.taps * padded);
        });
      });
    }
  }
  order_sums<kLanes>(matrix, links, sums, padded, weight_gradient);
  if (bias_gradient == nullptr) return;
  sum_shards(0, shape.shards, padded_filters, bias_sums, [&](int64_t shard, float* target) {
    const float* own = gradients.data + shard * samples * gradients.size();
    clear(target, padded_filters);
    for (int64_t lane = 0; lane < padded_filters; lane += kLanes)
      add_rows<kLanes>(own + lane, samples * places, gradients.stride, target + lane);
  });
  copy_values<kLanes>(bias_sums, shape.filters, bias_gradient);
}

}  // namespace
}  // namespace lockstep::kernels
