// From every worker's shard gradients to new weights: the tree over the shards, then the updater of the weights' device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/train/compression.h"
#include "lockstep/train/optimizer.h"
#include "lockstep/train/shared_weights.h"
#include "lockstep/train/updater.h"

namespace lockstep::train {

/// Which worker this is: of the threads of its process, and of all workers of all ranks.
struct WorkerPlace {
  Share thread;
  Share worker;
};

/// Shared by the workers of a process. begin(), take() and step() are called by every worker in every step, with its own place;
/// the group's barriers order them. Every process has all weights and updates them all, its workers each a part of the blocks.
class Exchange {
 public:
  Exchange(comm::ThreadGroup& group, std::unique_ptr<GradientWay> way, SharedWeights& weights, const Optimizer& optimizer, double gradient_clip);

  /// Starts a step: this worker owns part_of(shard_count, all workers, its number).
  void begin(WorkerPlace place, int64_t shard_count);

  /// Adds the next shard's gradients (one per parameter, undefined ones count as zero) to this worker's nodes.
  void take(WorkerPlace place, const std::vector<at::Tensor>& gradients);

  /// When every worker of the process has taken its last: brings the nodes together with those of the other ranks. One thread.
  void meet(int64_t shard_count);

  /// After meet() and a barrier: finishes the tree for this worker's blocks and updates their weights.
  /// Ends with no barrier: the caller's next one makes the weights visible.
  void step(WorkerPlace place, int64_t shard_count, const device::UpdateRule& rule);

  /// The gradient's L2 norm of the last step, before clipping; NaN when clipping is off.
  double gradient_norm() const { return updater_->gradient_norm(); }

 private:
  const std::unique_ptr<GradientWay> way_;
  const SharedWeights& weights_;
  std::vector<comm::NodeStack> stacks_;        // one per worker of this process, written by it alone
  std::vector<comm::Node> nodes_;              // of the step, enough to finish the tree
  std::unique_ptr<Updater> updater_;
};

}  // namespace lockstep::train
