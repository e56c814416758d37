// Linear kernels for processors that add two products of bfloat16 numbers to a float in one instruction
// (AVX512_BF16). Two numbers that are neighbours along the sum are a pair, in one word of 32 bits: features
// in the forward pass, outputs for the gradient by input, and samples of a shard for the gradient by weight.
// The last one of an odd number is in a pair with zero. The instruction takes numbers below 2^-126 for zero.
#pragma once

#include "lockstep/kernels/linear_kernels.h"
#include "lockstep/kernels/internal/linear_tiles.h"
#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

using PairVector = VectorTypes<kWidest>::Words;
using PairBits = VectorTypes<2 * kWidest>::Halves;

/// sums + the products of the first numbers of the pairs + the products of the second ones
inline Wide add_two_products(Wide sums, PairVector left, PairVector right) {
  return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(left), reinterpret_cast<__m512bh>(right));
}

inline PairVector splat_pair(uint32_t pair) { return pair + PairVector{}; }

/// 16 numbers, or the first `count`; the others are zero.
template <class Count>
inline __m256i load_numbers(const BFloat16* source, Count count) {
  if constexpr (std::is_same_v<Count, std::integral_constant<int, kWidest>>) {
    return load_bytes<__m256i>(source);
  } else {
    return _mm256_maskz_loadu_epi16(first(count), source);
  }
}

/// The pairs (upper[i], lower[i]); lower may be null, for zeros.
template <class Count>
inline PairVector pairs_of(const BFloat16* upper, const BFloat16* lower, Count count) {
  constexpr PairBits kAlternate{0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m256i above = load_numbers(upper, count);
  const __m256i below = lower == nullptr ? __m256i{} : load_numbers(lower, count);
  return reinterpret_cast<PairVector>(_mm512_permutex2var_epi16(
      _mm512_castsi256_si512(above), reinterpret_cast<__m512i>(kAlternate), _mm512_castsi256_si512(below)));
}

/// Two rows of a matrix in each pair, but never rows of two shards.
struct RowPairs {
  const BFloat16* rows;
  int64_t stride;
  int64_t shards;
  int64_t rows_of_shard;

  int64_t of_shard() const { return divided_up(rows_of_shard, 2); }
  int64_t count() const { return shards * of_shard(); }
  RowPairs from(int64_t column) const { return {rows + column, stride, shards, rows_of_shard}; }

  /// Calls work(number of the pair, its upper row, its lower row or null).
  template <class Work>
  void each(Work&& work) const {
    for (int64_t pair = 0; pair < count(); ++pair) {
      const int64_t shard = pair / of_shard(), row = pair % of_shard() * 2;
      const BFloat16* upper = rows + (shard * rows_of_shard + row) * stride;
      work(pair, upper, row + 1 < rows_of_shard ? upper + stride : nullptr);
    }
  }
};

inline uint32_t* take_pairs(Workspace& workspace, int64_t count) {
  return reinterpret_cast<uint32_t*>(workspace.take(count));
}

constexpr int64_t padded(int64_t features) { return divided_up(features, kWidest) * kWidest; }

/// Strips of the features one after the other, each with its part of all pairs of rows; the strip at `place`
/// begins at place * pairs.count(). target [pairs.count() * padded(features)]
template <class RowsInPairs>
void pack_strips(const RowsInPairs& pairs, int64_t features, uint32_t* target) {
  const int64_t count = pairs.count();
  pairs.each([&](int64_t pair, const BFloat16* upper, const BFloat16* lower) {
    over_strips(features, [&](int64_t place, auto vectors, auto part) {
      uint32_t* strip = target + place * count + pair * vectors * kWidest;
      for (int v = 0; v < vectors; ++v) {
        const int64_t at = place + v * kWidest;
        const PairVector packed = pairs_of(upper + at, lower == nullptr ? nullptr : lower + at, part);
        std::memcpy(strip + v * kWidest, &packed, sizeof(packed));
      }
    });
  });
}

/// sums.values[i][v] += left(i) * right[v], for pairs
template <int kTileRows, int kTileVectors, class Left>
inline void add_pairs(Sums<kTileRows, kTileVectors>& sums, const Left& left, const uint32_t* right) {
  PairVector parts[kTileVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kTileVectors; ++v) parts[v] = load_bytes<PairVector>(right + v * kWidest);
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
    const PairVector factor = splat_pair(left(i));
#pragma GCC unroll 3
    for (int v = 0; v < kTileVectors; ++v)
      sums.values[i][v] = add_two_products(sums.values[i][v], factor, parts[v]);
  }
}

/// sums.values[i][v] += rows [i, depth], which are `stride` apart, * panel [pairs of the depth, v]
template <int kTileRows, int kTileVectors>
inline void add_rows(Sums<kTileRows, kTileVectors>& sums, const BFloat16* rows, int64_t stride, int64_t depth,
                     const uint32_t* panel) {
  int64_t d = 0;
  for (; d + 2 <= depth; d += 2, panel += kTileVectors * kWidest)
    add_pairs(
        sums, [&](int i) { return load_bytes<uint32_t>(rows + i * stride + d); }, panel);
  if (d < depth)
    add_pairs(
        sums, [&](int i) -> uint32_t { return rows[i * stride + d].bits; }, panel);
}

template <class Count>
inline PairVector load_features(const BFloat16* source, Count count) {
  if constexpr (std::is_same_v<Count, std::integral_constant<int, kWidest>>) {
    return load_bytes<PairVector>(source);
  } else {
    return reinterpret_cast<PairVector>(
        _mm512_maskz_loadu_epi16((1U << static_cast<uint32_t>(count)) - 1U, source));
  }
}

/// Calls work(place, count) for vectors of pairs of features; `count` is a constant for whole vectors.
template <class Work>
void over_feature_pairs(int64_t features, Work&& work) {
  constexpr int64_t kWhole = 2 * kWidest;
  int64_t place = 0;
  for (; place + kWhole <= features; place += kWhole) work(place, std::integral_constant<int, kWidest>{});
  if (place < features) work(place, features - place);
}

template <int kCount>
inline Vector<kDots> load_few(const BFloat16* source) {
  if constexpr (kCount == kDots) {
    return load<kDots>(source);
  } else {
    return load_some<kDots>(source, kCount);
  }
}

template <int kCount>
inline void store_few(Vector<kDots> value, BFloat16* target) {
  if constexpr (kCount == kDots) {
    store<kDots>(value, target);
  } else {
    store_some<kDots>(value, target, kCount);
  }
}

template <int kTileRows, int kColumns>
void forward_pairs_tile(const LinearShape& shape, const BFloat16* input, const BFloat16* weight,
                        const BFloat16* bias, BFloat16* output) {
  Wide sums[kTileRows][kDots] = {};
  over_feature_pairs(shape.features, [&](int64_t place, auto count) {
    PairVector columns[kColumns];
#pragma GCC unroll 4
    for (int k = 0; k < kColumns; ++k) columns[k] = load_features(weight + k * shape.features + place, count);
#pragma GCC unroll 4
    for (int n = 0; n < kTileRows; ++n) {
      const PairVector row = load_features(input + n * shape.features + place, count);
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) sums[n][k] = add_two_products(sums[n][k], row, columns[k]);
    }
  });
  const Vector<kDots> added = bias == nullptr ? Vector<kDots>{} : load_few<kColumns>(bias);
  // Unrolled, or g++ stores the sums in every step.
#pragma GCC unroll 4
  for (int n = 0; n < kTileRows; ++n)
    store_few<kColumns>(sums_of(sums[n]) + added, output + n * shape.outputs);
}

inline void forward_by_pairs(const LinearShape& shape, const BFloat16* input, const BFloat16* weight,
                             const BFloat16* bias, BFloat16* output) {
  in_tiles<kDots>(shape.outputs, [&](int64_t k, auto columns) {
    in_tiles<kDots>(shape.batch, [&](int64_t n, auto rows) {
      forward_pairs_tile<rows, columns>(shape, input + n * shape.features, weight + k * shape.features,
                                        bias == nullptr ? nullptr : bias + k, output + n * shape.outputs + k);
    });
  });
}

inline void input_gradient_by_pairs(const LinearShape& shape, const BFloat16* gradient,
                                    const BFloat16* weight, BFloat16* input_gradient) {
  // So small that the weight's part of it stays in a cache, and so large that whole cache lines are read.
  constexpr int64_t kBlock = 4 * kVectors * kWidest;
  const int64_t outputs = shape.outputs, pairs = divided_up(outputs, 2);
  Workspace workspace;
  uint32_t* packed = take_pairs(workspace, pairs * padded(smaller(kBlock, shape.features)));
  for (int64_t begin = 0; begin < shape.features; begin += kBlock) {
    const int64_t features = smaller(kBlock, shape.features - begin);
    pack_strips(RowPairs{weight + begin, shape.features, 1, outputs}, features, packed);
    over_strips(features, [&](int64_t place, auto vectors, auto count) {
      in_tiles<kRows>(shape.batch, [&](int64_t n, auto rows) {
        Sums<rows, vectors> sums{};
        add_rows(sums, gradient + n * outputs, outputs, outputs, packed + place * pairs);
        sums.write(input_gradient + n * shape.features + begin + place, shape.features, count);
      });
    });
  }
}

// With few samples, writing takes much of the time, so rows are few. Of the sums of four shards, registers
// have room for those of two, but the compiler's own choice of what to keep beats an array in memory.
constexpr int kFewRows = 4, kFewShards = 4;

/// Gradients of kRowsAtOnce outputs at a time, each with its part of all pairs of samples; zeros beyond the
/// outputs. target [pairs.count() * padded(outputs)]
template <int kRowsAtOnce, class RowsInPairs>
void pack_gradient(const RowsInPairs& pairs, int64_t outputs, uint32_t* target) {
  const int64_t count = pairs.count();
  pairs.each([&](int64_t pair, const BFloat16* upper, const BFloat16* lower) {
    over_features(outputs, [&](int64_t k, auto part) {
      const PairVector packed = pairs_of(upper + k, lower == nullptr ? nullptr : lower + k, part);
      for (int i = 0; i < kWidest; i += kRowsAtOnce) {
        std::memcpy(target + (k + i) * count + pair * kRowsAtOnce,
                    reinterpret_cast<const char*>(&packed) + 4 * i, 4 * kRowsAtOnce);
      }
    });
  });
}

/// A matrix [outputs, features] of floats, whose rows are `stride` apart.
struct SumsOfProducts {
  float* data;
  int64_t stride;
  int64_t outputs;
  int64_t features;
};

/// target = the sum over the shards, in the tree, of what their rows have as products: gradient [rows,
/// outputs] times input [rows, features]. kRowsAtOnce outputs are computed together, and the sums of
/// kShardsAtOnce shards are added in registers.
template <bool kAdd, int kRowsAtOnce, int kShardsAtOnce, class RowsInPairs>
void sum_products_of_shards(const RowsInPairs& gradient, const RowsInPairs& input,
                            const SumsOfProducts& target) {
  const int64_t pairs = gradient.count(), of_shard = gradient.of_shard();
  Workspace workspace;
  uint32_t* gradients = take_pairs(workspace, pairs * padded(target.outputs));
  pack_gradient<kRowsAtOnce>(gradient, target.outputs, gradients);
  uint32_t* inputs = take_pairs(workspace, pairs * padded(smaller(kFeaturesOfBlock, target.features)));
  over_blocks(target.features, [&](int64_t begin, int64_t features) {
    pack_strips(input.from(begin), features, inputs);
    in_tiles<kRowsAtOnce>(target.outputs, [&](int64_t k, auto rows) {
      over_strips(features, [&](int64_t place, auto vectors, auto count) {
        const auto sums_of_shard = [&](int64_t shard) {
          Sums<rows, vectors> sums{};
          for (int64_t pair = shard * of_shard; pair < (shard + 1) * of_shard; ++pair) {
            const uint32_t* left = gradients + k * pairs + pair * kRowsAtOnce;
            add_pairs(
                sums, [&](int i) { return left[i]; }, inputs + place * pairs + pair * vectors * kWidest);
          }
          return sums;
        };
        float* place_of_sums = target.data + k * target.stride + begin + place;
        fetch_next_strip<true, rows, vectors>(place_of_sums, target.stride);
        const auto sums = sum_in_registers<kShardsAtOnce>(0, gradient.shards, sums_of_shard);
        sums.template write<kAdd>(place_of_sums, target.stride, count);
      });
    });
  });
}

template <bool kAdd>
void weight_gradient_by_pairs(const LinearShape& shape, const BFloat16* gradient, const BFloat16* input,
                              float* weight_gradient) {
  const int64_t samples = shape.batch / shape.shards;
  const RowPairs gradients{gradient, shape.outputs, shape.shards, samples};
  const RowPairs inputs{input, shape.features, shape.shards, samples};
  sum_products_of_shards<kAdd, kFewRows, kFewShards>(
      gradients, inputs, {weight_gradient, shape.features, shape.outputs, shape.features});
}

}  // namespace
}  // namespace lockstep::kernels
