#include "lockstep/train/step/norm_groups.h"

#include <algorithm>

namespace lockstep::train {
namespace {

void add_groups(const NormBatch& batch, Range node, std::vector<Range>& groups) {
  const int64_t samples = part_of(batch.samples, batch.shards, node.end - 1).end -
                          part_of(batch.samples, batch.shards, node.begin).begin;
  if (node.count() == 1 || samples <= batch.group_samples) {
    groups.push_back(node);
    return;
  }
  const int64_t middle = middle_of(node.begin, node.end);
  add_groups(batch, {node.begin, middle}, groups);
  add_groups(batch, {middle, node.end}, groups);
}

}  // namespace

std::vector<Range> norm_groups(const NormBatch& batch) {
  std::vector<Range> groups;
  if (batch.shards > 0) add_groups(batch, {0, batch.shards}, groups);
  return groups;
}

std::vector<SpanningGroup> spanning_groups(const std::vector<Range>& groups, int64_t shards,
                                           const Deal& deal) {
  std::vector<SpanningGroup> spanning;
  int64_t of_ranks = 0, of_workers = 0;
  for (const Range group : groups) {
    const int64_t last = group.end - 1;
    if (deal.rank_of(shards, group.begin) != deal.rank_of(shards, last)) {
      spanning.push_back({group, true, of_ranks++ % 2});
    } else if (deal.worker_of(shards, group.begin) != deal.worker_of(shards, last)) {
      spanning.push_back({group, false, 2 + of_workers++ % 2});
    }
  }
  return spanning;
}

bool groups_span_ranks(const Plan& plan, int64_t ranks) {
  const StepPlan& step = plan.step;
  if (ranks == 1 || step.batch_norm_group == 0 || step.accumulate > 1) return false;
  const int64_t last = sample_order(step).epoch_size(plan.data.train_count) % step.mini_batch_size;
  const Deal deal{ranks, /*workers=*/ranks, plan.machine.rank_loads};
  const auto spans = [&](int64_t samples) {
    const int64_t shards = used_shards(step.shards, samples);
    const auto all = spanning_groups(norm_groups({samples, shards, step.batch_norm_group}), shards, deal);
    return std::any_of(all.begin(), all.end(), [](const SpanningGroup& group) { return group.spans_ranks; });
  };
  return spans(step.mini_batch_size) || (last > 0 && spans(last));
}

}  // namespace lockstep::train
