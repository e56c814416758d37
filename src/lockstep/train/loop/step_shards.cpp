#include "lockstep/train/loop/step_shards.h"

#include <algorithm>
#include <utility>

namespace lockstep::train {
namespace {

std::vector<int64_t> owners_of_shards(const TrainingSetup& setup) {
  const Deal deal = setup.plan.machine.deal(setup.comm.size());
  const int64_t shards = setup.plan.step.shards;
  std::vector<int64_t> owners;
  for (int64_t shard = 0; shard < shards; ++shard) owners.push_back(deal.worker_of(shards, shard));
  return owners;
}

}  // namespace

StepShards::StepShards(const TrainingSetup& setup)
    : comm_(setup.comm),
      owners_(owners_of_shards(setup)),
      results_(static_cast<size_t>(setup.plan.step.shards)),
      workers_(owners_) {}

std::span<ShardResult> StepShards::results_of(Range shards) {
  return std::span(results_).subspan(static_cast<size_t>(shards.begin), static_cast<size_t>(shards.count()));
}

void StepShards::note_worker(Range shards, int64_t worker) {
  std::fill(workers_.begin() + shards.begin, workers_.begin() + shards.end, worker);
}

std::span<const ShardResult> StepShards::reduce(int64_t shard_count, int64_t pieces,
                                                const std::vector<BatchNormInfo>& norms) {
  shard_count_ = shard_count;
  reduce_results(results_, shard_count, pieces, norms, comm_, &table_);
  computed_by_ = std::exchange(workers_, owners_);
  computed_by_.resize(static_cast<size_t>(shard_count));
  return std::span<const ShardResult>(results_).first(static_cast<size_t>(shard_count));
}

}  // namespace lockstep::train
