// Shards of random images for tests.
#pragma once

#include <vector>

#include <ATen/Functions.h>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train::test {

/// `count` shards of `samples` images [C,H,W] = `image`, u8, one after the other in one batch.
inline std::vector<data::Shard> shards_of(int64_t count, int64_t samples, const std::vector<int64_t>& image,
                                          int64_t classes) {
  std::vector<int64_t> shape{count * samples};
  shape.insert(shape.end(), image.begin(), image.end());
  const at::Tensor images = at::randint(256, shape, at::kByte),
                   target = at::randint(classes, {count * samples}, at::kLong);
  std::vector<data::Shard> shards;
  for (int64_t i = 0; i < count; ++i)
    shards.push_back({.index = i,
                      .first = i * samples,
                      .images = images.narrow(0, i * samples, samples),
                      .target = target.narrow(0, i * samples, samples),
                      .count = samples});
  return shards;
}

}  // namespace lockstep::train::test
