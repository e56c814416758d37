// Numbers of a layer's channels, for each shard of a batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/Functions.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/norm_groups.h"

namespace lockstep::kernels {

/// The sums over a shard, of `rows` values in each channel: two numbers of each channel, [channels] each.
inline NormSums norm_sums(int64_t rows, const float* first, const float* second, int64_t channels) {
  NormSums sums(static_cast<size_t>(1 + 2 * channels));
  sums[0] = static_cast<double>(rows);
  std::copy_n(first, channels, sums.begin() + 1);
  std::copy_n(second, channels, sums.begin() + 1 + channels);
  return sums;
}

/// A row [channels] of each shard, whose sum in the tree is the gradient of a parameter.
class ShardRows {
 public:
  ShardRows(int64_t shards, int64_t channels)
      : shards_(shards), channels_(channels), rows_(static_cast<size_t>(shards * channels)) {}

  float* of(int64_t shard) { return rows_.data() + shard * channels_; }

  at::Tensor sum() {
    const float* all = fold_tree(
        0, shards_, [&](int64_t shard) { return of(shard); },
        [&](float* left, const float* right) {
          for (int64_t c = 0; c < channels_; ++c) left[c] += right[c];
        });
    const at::Tensor result = at::empty({channels_}, at::kFloat);
    std::copy_n(all, channels_, result.mutable_data_ptr<float>());
    return result;
  }

 private:
  int64_t shards_;
  int64_t channels_;
  std::vector<float> rows_;
};

}  // namespace lockstep::kernels
