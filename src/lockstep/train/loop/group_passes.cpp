#include "lockstep/train/loop/group_passes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {
namespace {

using Shards = std::span<const data::Shard>;

// The largest nodes of equal shards that one pass takes.
std::vector<Shards> cut_into_passes(Shards shards, const GroupPasses& group, ShardRunner& runner,
                                    int64_t shard_count) {
  std::vector<Shards> passes;
  while (!shards.empty()) {
    const data::Shard& first = shards.front();
    runner.probe(first);
    const auto unequal = std::find_if(shards.begin(), shards.end(),
                                      [&](const data::Shard& shard) { return shard.count != first.count; });
    const int64_t most =
        std::min<int64_t>(group.update.most_together(runner, first.count), unequal - shards.begin());
    const auto count = static_cast<size_t>(comm::node_from(first.index, most, shard_count).count());
    passes.push_back(shards.first(count));
    shards = shards.subspan(count);
  }
  return passes;
}

// The groups of whole groups' shards, counted from the first one.
std::vector<Range> groups_within(const std::vector<Range>& groups, Range shards) {
  std::vector<Range> within;
  for (const Range group : groups) {
    if (shards.begin <= group.begin && group.end <= shards.end)
      within.push_back({group.begin - shards.begin, group.end - shards.begin});
  }
  return within;
}

}  // namespace

double GroupPasses::compute(const Runners& runners, const ShardUnit& unit, const StepWork& work,
                            std::span<ShardResult> results) const {
  const Shards shards = unit.shards;
  const Range all{shards.front().index, shards.back().index + 1};
  const std::vector<Range> whole = groups_within(work.groups, all);
  // Whole groups: the queue has given them because they go together, or there is one.
  if (unit.meeting == nullptr && (whole.size() > 1 || all.count() == 1)) {
    update.compute({thread, runners.own, shards, work.batch, step, {whole}}, results);
    return 0;
  }
  const std::vector<Shards> passes = cut_into_passes(shards, *this, runners.own, work.batch.shard_count);
  if (unit.meeting == nullptr && passes.size() == 1) {
    update.compute({thread, runners.own, shards, work.batch, step, {whole}}, results);
    return 0;
  }
  std::optional<GroupMeeting> own_meeting;
  if (unit.meeting == nullptr) own_meeting.emplace(all, all);
  GroupMeeting& meeting = unit.meeting == nullptr ? *own_meeting : *unit.meeting;
  std::vector<double> waited(passes.size());
  const auto compute_pass = [&](size_t index, ShardRunner& runner, Turn* turn) {
    const Shards own = passes[index];
    const Range node{own.front().index, own.back().index + 1};
    GroupMeeting::Pass pass(meeting, node, turn);
    runner.set_loss_scale(loss_scale);
    update.compute({thread, runner, own, work.batch, step, {{{0, node.count()}}, &pass}, turn != nullptr},
                   results.subspan(static_cast<size_t>(node.begin - all.begin), own.size()));
    waited[index] = pass.waited();
  };
  const auto give_up = [&] { unit.meeting == nullptr ? meeting.give_up() : groups.give_up(thread.rank); };
  if (passes.size() == 1) {
    try {
      compute_pass(0, runners.own, nullptr);
    } catch (...) {
      give_up();
      throw;
    }
    return waited.front();
  }
  runners.others.run(
      passes.size(), runners.own,
      [&](size_t index, ShardRunner& runner, Turn& turn) { compute_pass(index, runner, &turn); }, give_up);
  return std::accumulate(waited.begin(), waited.end(), 0.0);
}

}  // namespace lockstep::train
