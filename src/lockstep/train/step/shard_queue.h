// The shards of a step, dealt to the threads of a process: each computes its own first, and one that is done
// takes over what another has not begun, so that a slow core keeps nobody waiting for longer than one shard.
// Whoever computes a shard, its gradient is the same.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// Whether a thread computes shards of another.
enum class Takeover { allowed, never };

/// Any thread; between two steps the caller has a barrier.
class ShardQueue {
 public:
  explicit ShardQueue(int64_t threads, Takeover takeover = Takeover::allowed)
      : takeover_(takeover), offered_(static_cast<size_t>(threads)) {}

  /// A thread's own shards of the next step. What is left of the last step is dropped.
  void offer(int64_t thread, const std::vector<data::Shard>& shards);

  /// Drops what is left of all threads' shards, of a step that is given up.
  void withdraw();

  /// The next shards for this thread: its own in order, then the last of whoever has most left, a single one.
  /// Of its own it gets as many as are equal in size, a node of the tree over the mini-batch's shard_count,
  /// and at most `most`. Nothing when all that was offered is taken.
  std::vector<data::Shard> take(int64_t thread, int64_t most, int64_t shard_count);

 private:
  const Takeover takeover_;
  std::mutex mutex_;
  std::vector<std::deque<data::Shard>> offered_;  // of each thread
};

}  // namespace lockstep::train
