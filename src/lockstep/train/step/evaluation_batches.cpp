#include "lockstep/train/step/evaluation_batches.h"

#include <algorithm>

#include "lockstep/kernels/shards_together.h"

namespace lockstep::train {

// The next batch is this number of the first of these shards.
size_t EvaluationBatches::next(std::span<const data::Shard> shards) const {
  const int64_t samples = shards.front().count;
  const auto known = kept_apart_.find(samples);
  if (known == kept_apart_.end() || !known->second) return 1;
  const auto most = static_cast<size_t>(std::max<int64_t>(1, most_samples_ / samples));
  size_t count = 1;
  while (count < std::min(most, shards.size()) && shards[count].count == samples) ++count;
  return count;
}

void EvaluationBatches::for_each(std::span<const data::Shard> shards, const Work& work) {
  while (!shards.empty()) {
    const size_t count = next(shards);
    const kernels::ShardsTogether together(static_cast<int64_t>(count));
    if (count > 1) {
      work(data::joined(shards.first(count)), static_cast<int64_t>(count));
    } else {
      work(shards.front(), 1);
      kept_apart_.emplace(shards.front().count, !together.mixed());
    }
    shards = shards.subspan(count);
  }
}

}  // namespace lockstep::train
