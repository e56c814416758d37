// From every worker's shard gradients to new weights: the tree over the shards, then the updater of the weights' device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/train/optimizer.h"
#include "lockstep/train/shared_weights.h"
#include "lockstep/train/updater.h"

namespace lockstep::train {

/// Shared by the workers of a process. begin(), take() and step() are called by every worker in every step, with its own share;
/// the group's barriers inside step() order them.
class Exchange {
 public:
  Exchange(comm::ThreadGroup& group, SharedWeights& weights, const Optimizer& optimizer, double gradient_clip);

  /// Starts a step: this worker owns part_of(shard_count, size, rank).
  void begin(Share share, int64_t shard_count);

  /// Adds the next shard's gradients (one per parameter, undefined ones count as zero) to this worker's nodes.
  void take(Share share, const std::vector<at::Tensor>& gradients);

  /// After a barrier that follows every worker's last take(): finishes the tree for this worker's blocks and updates their weights.
  /// Ends with no barrier: the caller's next one makes the weights visible.
  void step(Share share, int64_t shard_count, const device::UpdateRule& rule);

  /// The gradient's L2 norm of the last step, before clipping; NaN when clipping is off.
  double gradient_norm() const { return updater_->gradient_norm(); }

 private:
  const SharedWeights& weights_;
  std::vector<comm::NodeStack> stacks_;        // one per worker, written by it alone
  std::unique_ptr<Updater> updater_;
};

}  // namespace lockstep::train
