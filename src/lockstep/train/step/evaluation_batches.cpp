#include "lockstep/train/step/evaluation_batches.h"

#include "lockstep/kernels/shards_together.h"
#include "lockstep/train/options/placement.h"

namespace lockstep::train {

EvaluationBatches::EvaluationBatches(const ShardRunner& runner, const Plan& plan, const std::string& device)
    : most_samples_(why_evaluated_alone(plan, device).empty() ? runner.most_evaluated() : 0) {}

// The next batch is this number of the first of these shards.
size_t EvaluationBatches::next(std::span<const data::Shard> shards) const {
  const int64_t samples = shards.front().count;
  const auto known = kept_apart_.find(samples);
  if (known == kept_apart_.end() || !known->second) return 1;
  const size_t most = std::min(static_cast<size_t>(most_shards(samples)), shards.size());
  size_t count = 1;
  while (count < most && shards[count].count == samples) ++count;
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
