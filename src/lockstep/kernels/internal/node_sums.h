// Sums over the shards of a node of the tree, for kernels that write the sums of a few shards at a time.
#pragma once

#include <bit>

#include "lockstep/base/share.h"
#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/vectors.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

/// The sum over kCount shards from `first` on, a power of two, all in registers.
template <int kCount, class Sum>
[[gnu::always_inline]] inline auto sum_of_few(int64_t first, const Sum& sum) {
  if constexpr (kCount == 1) {
    return sum(first);
  } else {
    auto left = sum_of_few<kCount / 2>(first, sum);
    left += sum_of_few<kCount / 2>(first + kCount / 2, sum);
    return left;
  }
}

/// The sum over the shards [lo, hi) in the tree, where registers have room for log2(kFew) + 1 results of
/// sum(shard): kFew shards, a power of two, are added there. Of all others one operand comes from memory.
/// Sums are commutative, so it does not matter which.
template <int kFew, class Sum>
inline auto sum_in_registers(int64_t lo, int64_t hi, const Sum& sum) -> decltype(sum(lo)) {
  constexpr int kMostLevels = 16;
  const auto count = static_cast<uint64_t>(hi - lo);
  if (count == 1) return sum(lo);
  if (!std::has_single_bit(count) || count < kFew || count > kFew << (kMostLevels - 1)) {
    auto left = sum_in_registers<kFew>(lo, middle_of(lo, hi), sum);
    left += sum_in_registers<kFew>(middle_of(lo, hi), hi, sum);
    return left;
  }
  // In a full tree a node ends with its last shard: as many as the shard's number has ones at its end.
  decltype(sum(lo)) waiting[kMostLevels];
  for (uint64_t i = 0;; ++i) {
    auto last = sum_of_few<kFew>(lo + static_cast<int64_t>(i) * kFew, sum);
    int level = 0;
    for (uint64_t ones = i; ones & 1; ones >>= 1) last += waiting[level++];
    if (i == count / kFew - 1) return last;
    waiting[level] = last;
  }
}

inline void add_to(float* sums, const float* more, int64_t count) {
  int64_t i = 0;
  for (; i + kWidest <= count; i += kWidest)
    store<kWidest>(load<kWidest>(sums + i) + load<kWidest>(more + i), sums + i);
  for (; i < count; ++i) sums[i] += more[i];
}

/// The convolution of some shards of the batch.
inline ConvolutionShape shape_of_shards(const ConvolutionShape& shape, int64_t shards) {
  ConvolutionShape result = shape;
  result.batch = shape.batch / shape.shards * shards;
  result.shards = shards;
  return result;
}

/// Gradients of a convolution's weight and bias; no bias if it is null.
struct WeightGradients {
  float* weight;
  float* bias;
};

/// Writes the gradients of a node of the tree. write(shape, gradient, input, target) does so for nodes of at
/// most `most` shards, and larger nodes are added here.
template <class T, class Write>
void sum_nodes(const ConvolutionShape& shape, int64_t most, const T* gradient, const T* input,
               const WeightGradients& target, const Write& write) {
  if (shape.shards <= most) return write(shape, gradient, input, target);
  const int64_t middle = middle_of(0, shape.shards);
  const ConvolutionShape left = shape_of_shards(shape, middle);
  const ConvolutionShape right = shape_of_shards(shape, shape.shards - middle);
  const int64_t weights = shape.filters * shape.channels * shape.kernel_height * shape.kernel_width;
  sum_nodes(left, most, gradient, input, target, write);
  Workspace workspace;
  const WeightGradients more{workspace.take(weights),
                             target.bias == nullptr ? nullptr : workspace.take(shape.filters)};
  sum_nodes(right, most, gradient + left.batch * shape.output_height() * shape.output_width() * shape.filters,
            input + left.batch * shape.height * shape.width * shape.channels, more, write);
  add_to(target.weight, more.weight, weights);
  if (target.bias != nullptr) add_to(target.bias, more.bias, shape.filters);
}

/// result [count] = the sum in the tree of what write(shard, target) writes for each shard.
template <class Write>
void sum_shards(int64_t lo, int64_t hi, int64_t count, float* result, const Write& write) {
  if (hi - lo == 1) return write(lo, result);
  const int64_t middle = middle_of(lo, hi);
  sum_shards(lo, middle, count, result, write);
  Workspace workspace;
  float* more = workspace.take(count);
  sum_shards(middle, hi, count, more, write);
  add_to(result, more, count);
}

}  // namespace
}  // namespace lockstep::kernels
