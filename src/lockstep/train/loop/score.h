// How good a network was on some samples.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/base/class_figures.h"
#include "lockstep/train/step/shard_result.h"

namespace lockstep::train {

/// Over the samples of a mini-batch, or of a whole dataset.
struct Score {
  double loss = 0;                 ///< mean
  double accuracy = 0;             ///< share of samples
  int64_t count = 0;               ///< samples
  ConfusionMatrix confusion = {};  ///< of a whole dataset with at most kMostInMatrix classes, else empty
};

/// From the sum over all shards.
inline Score score_of(const ShardResult& sum) {
  const auto targets = static_cast<double>(std::max<int64_t>(1, sum.targets));
  return {sum.loss / targets, static_cast<double>(sum.correct) / targets, sum.count};
}

}  // namespace lockstep::train
