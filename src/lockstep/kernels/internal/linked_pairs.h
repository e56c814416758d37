// Convolutions of small bfloat16 images, place by place (places.h), by products of pairs (linear_pairs.h).
// Pairs are channels in the forward pass, filters for the gradient by input, and for the gradient by weight
// two of a shard's places that a point of the kernel connects. Only for files that are compiled for
// AVX512_BF16.
#pragma once

#include "lockstep/kernels/internal/places.h"
#include "lockstep/kernels/internal/pointwise_pairs.h"

namespace lockstep::kernels {
namespace {

/// The rows of images [batch, places, channels] that one point of the kernel connects, in pairs: image by
/// image, but never of two shards.
struct LinkedPairs {
  const BFloat16* images;
  int64_t places;
  int64_t channels;
  int64_t Link::*place;
  const Link* links;
  int64_t of_image;  ///< links
  int64_t shards;
  int64_t samples;  ///< of a shard

  int64_t of_shard() const { return divided_up(samples * of_image, 2); }
  int64_t count() const { return shards * of_shard(); }
  LinkedPairs from(int64_t channel) const {
    LinkedPairs result = *this;
    result.images += channel;
    return result;
  }

  /// Calls work(number of the pair, its upper row, its lower row or null).
  template <class Work>
  void each(Work&& work) const {
    int64_t pair = 0;
    for (int64_t shard = 0; shard < shards; ++shard) {
      const BFloat16* upper = nullptr;
      for (int64_t image = shard * samples; image < (shard + 1) * samples; ++image) {
        for (int64_t i = 0; i < of_image; ++i) {
          const BFloat16* row = images + (image * places + links[i].*place) * channels;
          if (upper != nullptr) work(pair++, upper, row);
          upper = upper != nullptr ? nullptr : row;
        }
      }
      const BFloat16* none = nullptr;
      if (upper != nullptr) work(pair++, upper, none);
    }
  }
};

/// Packs the weight as [panel][taps][pairs of the depth][the panel's lanes], with zeros beyond the lanes.
/// Points of the kernel that no link has are left out.
inline void pack_linked_pairs(const WeightMatrix& matrix, const Links& by_tap, const BFloat16* weight,
                              uint32_t* packed) {
  constexpr int64_t kBlock = 8;  // of pairs, so that the weights of all lanes stay in the first-level cache
  const int64_t pairs = divided_up(matrix.depth, 2);
  over_panels(matrix.lanes, [&](int64_t first, auto vectors) {
    constexpr int64_t kWidth = vectors * kWidest;
    const int64_t lanes = smaller(kWidth, matrix.lanes - first);
    for (int64_t begin = 0; begin < pairs; begin += kBlock) {
      for (int64_t tap = 0; tap < matrix.taps; ++tap) {
        if (by_tap.count(tap) == 0) continue;
        for (int64_t pair = begin; pair < smaller(begin + kBlock, pairs); ++pair) {
          uint32_t* row = packed + first * matrix.taps * pairs + (tap * pairs + pair) * kWidth;
          const BFloat16* upper = weight + matrix.place(tap, 2 * pair, first);
          const bool has_lower = 2 * pair + 1 < matrix.depth;
          const BFloat16* lower = has_lower ? upper + matrix.depth_stride : upper;
          const uint32_t mask = has_lower ? 0xFFFF0000 : 0;
          for (int64_t lane = 0; lane < lanes; ++lane) {
            const int64_t at = lane * matrix.lane_stride;
            row[lane] = upper[at].bits | (uint32_t{lower[at].bits} << 16 & mask);
          }
          for (int64_t lane = lanes; lane < kWidth; ++lane) row[lane] = 0;
        }
      }
    }
  });
}

/// As convolve_places.
inline void convolve_linked_pairs(const ConvolutionShape& shape, const Direction& direction,
                                  const BFloat16* source, const BFloat16* weight, const WeightMatrix& matrix,
                                  const BFloat16* bias, const ConvolutionOutput<BFloat16>& result) {
  const int64_t pairs = divided_up(matrix.depth, 2), size = direction.source_places * matrix.depth;
  Workspace workspace;
  uint32_t* weights = take_pairs(workspace, matrix.taps * pairs * padded(matrix.lanes));
  const float* shifts = take_bias(workspace, bias, matrix.lanes);
  const Links links(shape, direction.result, direction.result_places);
  pack_linked_pairs(matrix, Links(shape, &Link::tap, matrix.taps), weight, weights);
  over_panels(matrix.lanes, [&](int64_t lane, auto vectors) {
    const uint32_t* panel = weights + lane * matrix.taps * pairs;
    for (int64_t place = 0; place < direction.result_places; ++place) {
      const Link* begin = links.begin(place);
      const Link* end = begin + links.count(place);
      in_tiles<kRows>(shape.batch, [&](int64_t image, auto rows) {
        Sums<rows, vectors> sums{};
        for (const Link* link = begin; link != end; ++link)
          add_rows(sums, source + image * size + link->*direction.source * matrix.depth, size, matrix.depth,
                   panel + link->tap * pairs * vectors * kWidest);
        store_places(sums, shifts + lane, matrix.lanes - lane,
                     {result.data + (image * direction.result_places + place) * result.step + lane,
                      direction.result_places * result.step, result.relu});
      });
    }
  });
}

inline void linked_forward(const ConvolutionShape& shape, const BFloat16* input, const BFloat16* weight,
                           const BFloat16* bias, const ConvolutionOutput<BFloat16>& output) {
  convolve_linked_pairs(shape, output_from_input(shape), input, weight, weight_by_filters(shape), bias,
                        output);
}

inline void linked_input_gradient(const ConvolutionShape& shape, const BFloat16* gradient,
                                  const BFloat16* weight, BFloat16* input_gradient) {
  convolve_linked_pairs(shape, input_from_output(shape), gradient, weight, weight_by_channels(shape), nullptr,
                        {input_gradient, shape.channels});
}

inline void linked_weight_gradient(const ConvolutionShape& shape, const BFloat16* gradient,
                                   const BFloat16* input, const WeightGradients& target) {
  constexpr int kShardsAtOnce = 1;  // registers have room for no more sums
  const WeightMatrix matrix = weight_by_channels(shape);
  const int64_t samples = shape.batch / shape.shards, channels = shape.channels, filters = shape.filters;
  Workspace workspace;
  float* sums = workspace.take(filters * matrix.taps * channels);
  const Links links(shape, &Link::tap, matrix.taps);
  for (int64_t tap = 0; tap < matrix.taps; ++tap) {
    if (links.count(tap) == 0) continue;
    const auto pairs_of_tap = [&](const BFloat16* images, int64_t places, int64_t width,
                                  int64_t Link::*place) {
      return LinkedPairs{images,           places,           width,        place,
                         links.begin(tap), links.count(tap), shape.shards, samples};
    };
    sum_products_of_shards<false, kRows, kShardsAtOnce>(
        pairs_of_tap(gradient, shape.output_height() * shape.output_width(), filters, &Link::output),
        pairs_of_tap(input, shape.height * shape.width, channels, &Link::input),
        {sums + tap * channels, matrix.taps * channels, filters, channels});
  }
  order_sums<kWidest>(matrix, links, sums, channels, target.weight);
  sum_bias(shape, gradient, target.bias);
}

}  // namespace
}  // namespace lockstep::kernels
