// Convolutions of bfloat16 images with a kernel of one place, by products of pairs (linear_pairs.h): products
// of matrices, [places, channels] times [channels, filters]. Pairs are channels in the forward pass, filters
// for the gradient by input, and places of a shard for the gradient by weight. With strides, the places that
// count are copied first. Only for files that are compiled for AVX512_BF16.
#pragma once

#include <algorithm>
#include <limits>

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/linear_pairs.h"

namespace lockstep::kernels {
namespace {

/// Calls work(count) with a constant for a whole vector.
template <class Work>
inline void with_part(int64_t count, Work&& work) {
  if (count >= kWidest) return work(std::integral_constant<int, kWidest>{});
  work(count);
}

/// Calls work(lane, vectors) for panels of at most kVectors vectors of the lanes, of nearly equal width; the
/// number of vectors is a compile-time constant. Only the last vector may have lanes beyond the last one.
template <class Work>
inline void over_panels(int64_t lanes, Work&& work) {
  const int64_t all = divided_up(lanes, kWidest), panels = divided_up(all, kVectors);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t begin = all * panel / panels;
    with_count(
        all * (panel + 1) / panels - begin, [&](auto vectors) { work(begin * kWidest, vectors); },
        std::make_integer_sequence<int, kVectors>{});
  }
}

/// Panels of the columns of a matrix [depth, lanes] one after the other, each with its part of all pairs of
/// rows, and zeros beyond the lanes; the panel at `lane` begins at lane * pairs.
inline void pack_panels(const RowPairs& rows, int64_t lanes, uint32_t* target) {
  const int64_t count = rows.count();
  rows.each([&](int64_t pair, const BFloat16* upper, const BFloat16* lower) {
    over_panels(lanes, [&](int64_t lane, auto vectors) {
      uint32_t* panel = target + lane * count + pair * vectors * kWidest;
      for (int64_t at = lane; at < smaller(lanes, lane + vectors * kWidest); at += kWidest) {
        with_part(lanes - at, [&](auto part) {
          const PairVector packed = pairs_of(upper + at, lower == nullptr ? nullptr : lower + at, part);
          std::memcpy(panel + at - lane, &packed, sizeof(packed));
        });
      }
    });
  });
}

/// The same panels from the transposed matrix, [lanes, depth].
inline void pack_turned_panels(const BFloat16* matrix, int64_t depth, int64_t lanes, uint32_t* target) {
  const int64_t count = divided_up(depth, 2);
  over_panels(lanes, [&](int64_t lane, auto vectors) {
    for (int64_t at = lane; at < smaller(lanes, lane + vectors * kWidest); at += kWidest) {
      over_feature_pairs(depth, [&](int64_t place, auto part) {
        PairVector square[kWidest] = {};
        for (int64_t i = 0; i < smaller(kWidest, lanes - at); ++i)
          square[i] = load_features(matrix + (at + i) * depth + place, part);
        transpose_square(square);
        uint32_t* panel = target + lane * count + place / 2 * vectors * kWidest + at - lane;
        for (int64_t i = 0; i < smaller(kWidest, count - place / 2); ++i)
          std::memcpy(panel + i * vectors * kWidest, &square[i], sizeof(square[i]));
      });
    }
  });
}

/// The right side of a product, in panels; `bias` is added to each place, [lanes] with zeros up to a whole
/// vector.
struct PackedMatrix {
  int64_t depth;
  int64_t lanes;
  const uint32_t* panels;
  const float* bias;
};

template <int kTileRows, int kTileVectors>
inline void store_places(const Sums<kTileRows, kTileVectors>& sums, const float* bias, int64_t lanes,
                         const ConvolutionOutput<BFloat16>& output) {
  const Wide least = splat<kWidest>(output.relu ? 0.0F : -std::numeric_limits<float>::infinity());
#pragma GCC unroll 3
  for (int v = 0; v < kTileVectors; ++v) {
    const Wide shift = load<kWidest>(bias + v * kWidest);
    with_part(lanes - v * kWidest, [&](auto part) {
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i)
        store_part(at_least(sums.values[i][v] + shift, least), output.data + i * output.step + v * kWidest,
                   part);
    });
  }
}

/// Prefetches `count` numbers, in order, into the second cache.
template <bool kWrite = false>
inline void fetch_ahead_of(const BFloat16* values, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) __builtin_prefetch(values + i, kWrite, 2);
}

/// output = places [places, depth] * matrix. So many places at a time that they stay in the second cache
/// while all panels are read.
inline void multiply_places(int64_t places, const BFloat16* values, const PackedMatrix& matrix,
                            const ConvolutionOutput<BFloat16>& output) {
  constexpr int64_t kNumbers = 65536, kLeast = 24;
  const int64_t depth = matrix.depth, pairs = divided_up(depth, 2);
  const int64_t chunk = larger(kLeast, kNumbers / (depth + matrix.lanes) / kRows * kRows);
  for (int64_t begin = 0; begin < places; begin += chunk) {
    over_panels(matrix.lanes, [&](int64_t lane, auto vectors) {
      in_tiles<kRows>(smaller(chunk, places - begin), [&](int64_t n, auto rows) {
        if (lane == 0) {
          fetch_ahead_of(values + (begin + chunk + n) * depth, rows * depth);
          fetch_ahead_of<kToWrite>(output.data + (begin + chunk + n) * output.step, rows * output.step);
        }
        Sums<rows, vectors> sums{};
        add_rows(sums, values + (begin + n) * depth, depth, depth, matrix.panels + lane * pairs);
        store_places(sums, matrix.bias + lane, matrix.lanes - lane,
                     {output.data + (begin + n) * output.step + lane, output.step, output.relu});
      });
    });
  }
}

/// sums [lanes] of values [places, lanes]
inline void sum_places(int64_t places, const BFloat16* values, int64_t lanes, float* sums) {
  over_features(lanes, [&](int64_t lane, auto part) {
    Wide total{};
    for (int64_t place = 0; place < places; ++place) total += load_part(values + place * lanes + lane, part);
    store_part(total, sums + lane, part);
  });
}

inline int64_t output_places(const ConvolutionShape& shape) {
  return shape.batch * shape.output_height() * shape.output_width();
}

/// One factor of a gradient by weight: images [places, channels].
struct Factor {
  const BFloat16* images;
  int64_t channels;

  RowPairs pairs(int64_t begin, int64_t count) const {
    return {images + begin * channels, channels, 1, count};
  }
};

/// sums [left.channels, right.channels] = the sum over the places of left * right. Places are packed in
/// chunks that stay in the second cache. A chunk has an even number of places, so pairs and the order of sums
/// are those of weight_gradient_by_pairs.
inline void sum_products_of_places(int64_t places, const Factor& left, const Factor& right, float* sums) {
  constexpr int64_t kNumbers = 65536, kLeast = 64;
  const int64_t lanes = right.channels;
  const int64_t chunk = larger(kLeast, kNumbers / (left.channels + lanes) / 2 * 2);
  Workspace workspace;
  uint32_t* lefts = take_pairs(workspace, chunk / 2 * padded(left.channels));
  uint32_t* rights = take_pairs(workspace, chunk / 2 * padded(lanes));
  for (int64_t begin = 0; begin < places; begin += chunk) {
    const int64_t count = smaller(chunk, places - begin), pairs = divided_up(count, 2);
    pack_gradient<kRows>(left.pairs(begin, count), left.channels, lefts);
    pack_panels(right.pairs(begin, count), lanes, rights);
    over_panels(lanes, [&](int64_t lane, auto vectors) {
      in_tiles<kRows>(left.channels, [&](int64_t row, auto rows) {
        Sums<rows, vectors> tile{};
        float* target = sums + row * lanes + lane;
        const auto each_part = [&](const auto& work) {
          for (int v = 0; v < vectors; ++v) {
            with_part(lanes - lane - v * kWidest, [&](auto part) {
              for (int i = 0; i < rows; ++i) work(tile.values[i][v], target + i * lanes + v * kWidest, part);
            });
          }
        };
        if (begin > 0)
          each_part([](Wide& value, const float* place, auto part) { value = load_part(place, part); });
        const uint32_t* upper = lefts + row * pairs;
        const uint32_t* lower = rights + lane * pairs;
        for (int64_t pair = 0; pair < pairs; ++pair, upper += kRows, lower += vectors * kWidest)
          add_pairs(
              tile, [&](int i) { return upper[i]; }, lower);
        each_part([](Wide value, float* place, auto part) { store_part(value, place, part); });
      });
    });
  }
}

/// Of one shard, without strides.
inline void pointwise_gradient_of_shard(const ConvolutionShape& shape, const BFloat16* gradient,
                                        const BFloat16* input, const WeightGradients& target) {
  constexpr int64_t kNarrow = 2 * kWidest;
  const int64_t filters = shape.filters, channels = shape.channels, places = output_places(shape);
  const Factor by_output{gradient, filters}, by_input{input, channels};
  if (channels <= kNarrow && channels < filters) {  // the wider one fills the vectors
    Workspace workspace;
    float* turned = workspace.take(channels * filters);
    sum_products_of_places(places, by_input, by_output, turned);
    transpose(turned, 1, channels, filters, target.weight);
  } else {
    sum_products_of_places(places, by_output, by_input, target.weight);
  }
  if (target.bias != nullptr) sum_places(places, gradient, filters, target.bias);
}

/// bias [filters] = the sums over the places of each shard, in the tree; nothing if it is null.
inline void sum_bias(const ConvolutionShape& shape, const BFloat16* gradient, float* bias) {
  if (bias == nullptr) return;
  const int64_t of_shard = output_places(shape) / shape.shards;
  sum_shards(0, shape.shards, shape.filters, bias, [&](int64_t shard, float* own) {
    sum_places(of_shard, gradient + shard * of_shard * shape.filters, shape.filters, own);
  });
}

/// Without strides. With few places, tiles of sums stay in registers for all shards; otherwise the sums of a
/// shard are small beside its images.
inline void pointwise_gradient_of_weight(const ConvolutionShape& shape, const BFloat16* gradient,
                                         const BFloat16* input, const WeightGradients& target) {
  constexpr int64_t kFewPlaces = 4096, kFewOfShard = 64;
  const int64_t places = output_places(shape), of_shard = places / shape.shards;
  if (places > kFewPlaces || of_shard > kFewOfShard)
    return sum_nodes(shape, 1, gradient, input, target, &pointwise_gradient_of_shard);
  weight_gradient_by_pairs<false>({places, shape.channels, shape.filters, shape.shards}, gradient, input,
                                  target.weight);
  sum_bias(shape, gradient, target.bias);
}

/// Calls work(place of the input, place of the output) where the kernel connects them.
template <class Work>
inline void over_places(const ConvolutionShape& shape, const Work& work) {
  int64_t output = 0;
  for (int64_t image = 0; image < shape.batch; ++image) {
    for (int64_t y = 0; y < shape.output_height(); ++y) {
      for (int64_t x = 0; x < shape.output_width(); ++x, ++output)
        work((image * shape.height + y * shape.stride_height) * shape.width + x * shape.stride_width, output);
    }
  }
}

inline BFloat16* take_numbers(Workspace& workspace, int64_t count) {
  return reinterpret_cast<BFloat16*>(workspace.take(divided_up(count, 2)));
}

/// The input's places that count: the input itself, or a copy.
inline const BFloat16* places_in_order(Workspace& workspace, const ConvolutionShape& shape,
                                       const BFloat16* input) {
  if (!shape.is_strided()) return input;
  const int64_t channels = shape.channels;
  BFloat16* copy = take_numbers(workspace, output_places(shape) * channels);
  over_places(shape, [&](int64_t from, int64_t to) {
    std::memcpy(copy + to * channels, input + from * channels,
                static_cast<size_t>(channels) * sizeof(BFloat16));
  });
  return copy;
}

inline float* take_zeros(Workspace& workspace, int64_t count) {
  float* zeros = workspace.take(count);
  std::fill_n(zeros, count, 0.0F);
  return zeros;
}

/// As floats, with zeros up to a whole vector, or zeros only if it is null.
inline const float* take_bias(Workspace& workspace, const BFloat16* bias, int64_t lanes) {
  float* result = take_zeros(workspace, padded(lanes));
  for (int64_t i = 0; bias != nullptr && i < lanes; ++i) result[i] = to_float(bias[i]);
  return result;
}

inline void pointwise_by_pairs(const ConvolutionShape& shape, const BFloat16* input, const BFloat16* weight,
                               const BFloat16* bias, const ConvolutionOutput<BFloat16>& output) {
  Workspace workspace;
  const BFloat16* places = places_in_order(workspace, shape, input);
  uint32_t* panels = take_pairs(workspace, divided_up(shape.channels, 2) * padded(shape.filters));
  pack_turned_panels(weight, shape.channels, shape.filters, panels);
  const float* shifts = take_bias(workspace, bias, shape.filters);
  multiply_places(output_places(shape), places, {shape.channels, shape.filters, panels, shifts}, output);
}

inline void pointwise_input_gradient_by_pairs(const ConvolutionShape& shape, const BFloat16* gradient,
                                              const BFloat16* weight, BFloat16* input_gradient) {
  const int64_t channels = shape.channels, places = output_places(shape);
  Workspace workspace;
  uint32_t* panels = take_pairs(workspace, divided_up(shape.filters, 2) * padded(channels));
  pack_panels({weight, channels, 1, shape.filters}, channels, panels);
  BFloat16* result = shape.is_strided() ? take_numbers(workspace, places * channels) : input_gradient;
  const float* no_bias = take_zeros(workspace, padded(channels));
  multiply_places(places, gradient, {shape.filters, channels, panels, no_bias}, {result, channels});
  if (!shape.is_strided()) return;
  std::fill_n(input_gradient, shape.batch * shape.height * shape.width * channels, BFloat16{});
  over_places(shape, [&](int64_t to, int64_t from) {
    std::memcpy(input_gradient + to * channels, result + from * channels,
                static_cast<size_t>(channels) * sizeof(BFloat16));
  });
}

inline void pointwise_weight_gradient_by_pairs(const ConvolutionShape& shape, const BFloat16* gradient,
                                               const BFloat16* input, const WeightGradients& target) {
  Workspace workspace;
  const BFloat16* places = places_in_order(workspace, shape, input);
  ConvolutionShape dense = shape;
  dense.height = shape.output_height();
  dense.width = shape.output_width();
  dense.stride_height = dense.stride_width = 1;
  pointwise_gradient_of_weight(dense, gradient, places, target);
}

}  // namespace
}  // namespace lockstep::kernels
