// The shards of a step for the threads of a process. Each thread computes its own shards first. A thread that
// is done takes shards that another thread has not begun, so that nobody waits for a slow core longer than
// one shard takes. A shard has the same gradient on any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// The tree over a mini-batch's shards, and the groups of shards that batch norms normalise together, in
/// order (norm_groups.h); a group of one shard may be left out.
struct ShardGroups {
  int64_t shard_count;
  std::span<const Range> groups = {};
};

/// Any thread may call it. The caller has a barrier between two steps.
class ShardQueue {
 public:
  explicit ShardQueue(int64_t threads) : offered_(static_cast<size_t>(threads)) {}

  /// Sets a thread's own shards of the next step. Shards of the last step that are left are dropped.
  void offer(int64_t thread, const std::vector<data::Shard>& shards);

  /// Drops the shards of all threads that are left, when the step is given up.
  void withdraw();

  /// The next shards for this thread: its own in order, then a single one, the last shard of the thread that
  /// has most left. Its own shards come several at once, up to `most`, if they have equal sizes and are a
  /// node of the tree. A group comes as a whole, whatever its size. Empty when all shards are taken.
  std::vector<data::Shard> take(int64_t thread, int64_t most, const ShardGroups& groups);

 private:
  std::mutex mutex_;
  std::vector<std::deque<data::Shard>> offered_;  // of each thread
};

}  // namespace lockstep::train
