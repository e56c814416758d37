#include "lockstep/train/step/shard_queue.h"

#include <algorithm>
#include <iterator>

#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {
namespace {

// How many of the first shards make a node of equal ones.
int64_t together(const std::deque<data::Shard>& own, int64_t most, int64_t shard_count) {
  const data::Shard& first = own.front();
  const auto unequal = std::find_if(own.begin(), own.end(),
                                    [&](const data::Shard& shard) { return shard.count != first.count; });
  return comm::node_from(first.index, std::min<int64_t>(most, unequal - own.begin()), shard_count).count();
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

std::vector<data::Shard> ShardQueue::take(int64_t thread, int64_t most, int64_t shard_count) {
  const std::lock_guard lock(mutex_);
  auto& own = offered_[static_cast<size_t>(thread)];
  if (!own.empty()) {
    const auto end = own.begin() + together(own, most, shard_count);
    std::vector<data::Shard> shards(std::make_move_iterator(own.begin()), std::make_move_iterator(end));
    own.erase(own.begin(), end);
    return shards;
  }
  if (takeover_ == Takeover::never) return {};
  auto& richest = *std::max_element(offered_.begin(), offered_.end(),
                                    [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (richest.empty()) return {};
  std::vector<data::Shard> shards{std::move(richest.back())};
  richest.pop_back();
  return shards;
}

}  // namespace lockstep::train
