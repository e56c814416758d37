// From the gradients of all shards to new weights: the tree over the shards, then the updater of the weights'
// device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/train/update/bucket_exchange.h"
#include "lockstep/train/update/compression.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/step/shared_weights.h"
#include "lockstep/train/update/updater.h"

namespace lockstep::train {

struct ExchangeOptions {
  std::unique_ptr<GradientCompressor> compressor;  ///< exchanges the ranks' nodes if nothing overlaps
  double gradient_clip = 0;
  NotFinite not_finite = NotFinite::update;
  bool in_place = false;  ///< backward may write gradients into the nodes' buffers; for networks of layers
  bool overlap = true;    ///< between ranks: send the gradients that are done while backward makes the others
  /// Of the weights' device, on which these are sent.
  std::unique_ptr<device::SideStream> stream = std::make_unique<device::SideStream>();
  std::function<bool()>
      agree;  ///< the ranks agree whether this step is dropped; called once a step, from any thread
};

/// Shared by the workers of a process. Every worker calls begin(), take() and step() in every step, with its
/// own `thread`; the group's barriers order the calls. Every process has all weights and updates all of them,
/// each worker a part of the blocks.
class Exchange {
 public:
  Exchange(comm::ThreadGroup& group, comm::Communicator& comm, SharedWeights& weights,
           const Optimizer& optimizer, ExchangeOptions options);

  /// Starts a step, or starts it again after it was dropped. own_count: of the shards, those that are dealt
  /// to this worker. Any worker of the process may compute them.
  void begin(Share thread, int64_t own_count, int64_t shard_count);

  /// Whether gradients are sent to the other ranks while backward makes more.
  bool overlaps() const { return beside_ != nullptr; }
  /// In how many parts they are sent.
  size_t bucket_count() const { return std::max<size_t>(1, bucket_sizes_.size()); }

  /// Before the shards of a node of the tree (often one shard) are computed in one piece: the target into
  /// which backward may write their gradients while it lives. Null if all of them must go to take().
  std::unique_ptr<kernels::GradientTarget> begin_in_place(Share thread, Range node);

  /// Adds a node's gradients (one per parameter, undefined ones count as zero) to this worker's nodes.
  /// `written`: the target from begin_in_place.
  void take(Share thread, Range node, const std::vector<at::Tensor>& gradients,
            const kernels::GradientTarget* written = nullptr);

  /// If overlaps(): before each node is computed, by any worker. True if it may be the worker's last one: its
  /// gradients should then come early.
  bool may_be_last(Range node) { return beside_ != nullptr && beside_->begin_node(node.count()); }
  /// After may_be_last(): the node's gradients are given one by one, with take_early, as backward makes them;
  /// take() then takes the rest.
  void begin_early(Share thread, Range node);
  void take_early(Share thread, size_t parameter, const at::Tensor& gradient);

  /// When every worker of the process has taken its last node, or has given up: agrees with the other ranks
  /// and exchanges the nodes with them. One thread.
  void synchronize(int64_t shard_count);

  /// After synchronize() and a barrier: finishes the tree for this worker's blocks and updates their weights.
  /// Ends without a barrier; the caller's next barrier makes the weights visible.
  void step(Share thread, int64_t shard_count, const device::UpdateRule& rule);

  /// See Updater.
  double gradient_norm() const { return updater_->gradient_norm(); }
  bool skipped() const { return updater_->skipped(); }
  /// How long the last step's exchange between ranks ran beside backward, seconds.
  double hidden_seconds() const { return beside_ == nullptr ? 0 : beside_->hidden_seconds(); }

 private:
  // Of a worker in a node whose gradients come one by one.
  struct Early {
    int64_t shards = 0;         // of the node; 0: there is none
    std::vector<bool> taken;    // of each parameter
    std::vector<int64_t> left;  // parameters, of each bucket
  };
  void take_parameter(Share thread, size_t parameter, const at::Tensor& gradient);

  comm::Communicator& comm_;
  const std::unique_ptr<GradientCompressor> compressor_;
  const SharedWeights& weights_;
  const std::function<bool()> agree_;
  const bool in_place_;
  std::vector<Early> early_;             // one per worker of this process, written by it alone
  std::vector<int64_t> bucket_sizes_;    // parameters
  std::vector<size_t> bucket_of_;        // of each parameter
  std::vector<comm::NodeStack> stacks_;  // one per worker of this process, written by it alone
  std::vector<comm::Node> nodes_;        // of the step, sufficient to finish the tree
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<BucketExchange> beside_;  // null: everything is exchanged in synchronize()
};

}  // namespace lockstep::train
