#include "lockstep/train/shard_deal.h"

#include <algorithm>

namespace lockstep::train {

void ShardDeal::offer(int64_t thread, const std::vector<data::Shard>& shards) {
  const std::lock_guard lock(mutex_);
  offered_[static_cast<size_t>(thread)].assign(shards.begin(), shards.end());
}

std::optional<data::Shard> ShardDeal::take(int64_t thread) {
  const std::lock_guard lock(mutex_);
  auto& own = offered_[static_cast<size_t>(thread)];
  if (!own.empty()) {
    data::Shard shard = std::move(own.front());
    own.pop_front();
    return shard;
  }
  if (takeover_ == Takeover::never) return std::nullopt;
  auto& most = *std::max_element(offered_.begin(), offered_.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (most.empty()) return std::nullopt;
  data::Shard shard = std::move(most.back());
  most.pop_back();
  return shard;
}

}  // namespace lockstep::train
