#include "lockstep/train/step/shard_queue.h"

#include <algorithm>
#include <iterator>

#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {
namespace {

// How many shards the group of this shard has.
int64_t group_size(const ShardGroups& groups, int64_t shard) {
  const auto group = std::find_if(groups.groups.begin(), groups.groups.end(),
                                  [&](Range range) { return range.contains(shard); });
  return group == groups.groups.end() ? 1 : group->count();
}

// How many of the first shards make a node of equal ones, or the first group.
int64_t together(const std::deque<data::Shard>& own, int64_t most, const ShardGroups& groups) {
  const data::Shard& first = own.front();
  const auto unequal = std::find_if(own.begin(), own.end(),
                                    [&](const data::Shard& shard) { return shard.count != first.count; });
  return std::max(
      group_size(groups, first.index),
      comm::node_from(first.index, std::min<int64_t>(most, unequal - own.begin()), groups.shard_count)
          .count());
}

}  // namespace

void ShardQueue::offer(int64_t thread, const std::vector<data::Shard>& shards) {
  const std::lock_guard lock(mutex_);
  offered_[static_cast<size_t>(thread)].assign(shards.begin(), shards.end());
}

void ShardQueue::withdraw() {
  const std::lock_guard lock(mutex_);
  for (auto& shards : offered_) shards.clear();
}

std::vector<data::Shard> ShardQueue::take(int64_t thread, int64_t most, const ShardGroups& groups) {
  const std::lock_guard lock(mutex_);
  auto& own = offered_[static_cast<size_t>(thread)];
  if (!own.empty()) {
    const auto end = own.begin() + together(own, most, groups);
    std::vector<data::Shard> shards(std::make_move_iterator(own.begin()), std::make_move_iterator(end));
    own.erase(own.begin(), end);
    return shards;
  }
  auto& richest = *std::max_element(offered_.begin(), offered_.end(),
                                    [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (richest.empty()) return {};
  const auto begin = richest.end() - group_size(groups, richest.back().index);
  std::vector<data::Shard> shards(std::make_move_iterator(begin), std::make_move_iterator(richest.end()));
  richest.erase(begin, richest.end());
  return shards;
}

}  // namespace lockstep::train
