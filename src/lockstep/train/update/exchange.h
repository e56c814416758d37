// From every worker's shard gradients to new weights: the tree over the shards, then the updater of the
// weights' device.
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
  std::unique_ptr<GradientCompressor> way;  ///< how nodes come together where nothing overlaps
  double gradient_clip = 0;
  NotFinite not_finite = NotFinite::update;
  bool in_place = false;  ///< backward may write gradients where they belong: a layer graph
  bool overlap =
      true;  ///< between ranks: exchange the gradients that are there while backward makes the others
  std::function<bool()>
      agree;  ///< the ranks agree on whether this step is dropped; called once a step, from any thread
};

/// Shared by the workers of a process. begin(), take() and step() are called by every worker in every step,
/// with its own `thread`; the group's barriers order them. Every process has all weights and updates them
/// all, its workers each a part of the blocks.
class Exchange {
 public:
  Exchange(comm::ThreadGroup& group, comm::Communicator& comm, SharedWeights& weights,
           const Optimizer& optimizer, ExchangeOptions options);

  /// Starts a step, or starts it anew after it was dropped. own_count: this worker's shards; it must compute
  /// those and no others where overlaps().
  void begin(Share thread, int64_t own_count, int64_t shard_count);

  /// Whether gradients go to the other ranks while backward makes more.
  bool overlaps() const { return beside_ != nullptr; }
  /// In how many parts they go.
  size_t bucket_count() const { return std::max<size_t>(1, bucket_sizes_.size()); }

  /// Before the shards of a node of the tree, often one, are computed in one piece: where backward may put
  /// their gradients by itself, while this lives. Null where they all come to take().
  std::unique_ptr<kernels::GradientTarget> begin_in_place(Share thread, Range node);

  /// Adds a node's gradients (one per parameter, undefined ones count as zero) to this worker's nodes.
  /// `written`: what begin_in_place gave.
  void take(Share thread, Range node, const std::vector<at::Tensor>& gradients,
            const kernels::GradientTarget* written = nullptr);

  /// True before a worker's last node, where its gradients may be given one by one as backward makes them,
  /// with take_early; take() then takes the rest.
  bool begin_early(Share thread, Range node);
  void take_early(Share thread, size_t parameter, const at::Tensor& gradient);

  /// When every worker of the process has taken its last, or given up: agrees with the other ranks, and
  /// brings the nodes together with theirs. One thread.
  void synchronize(int64_t shard_count);

  /// After synchronize() and a barrier: finishes the tree for this worker's blocks and updates their weights.
  /// Ends with no barrier: the caller's next one makes the weights visible.
  void step(Share thread, int64_t shard_count, const device::UpdateRule& rule);

  /// As of the Updater.
  double gradient_norm() const { return updater_->gradient_norm(); }
  bool skipped() const { return updater_->skipped(); }
  /// How long the last step's exchange between ranks ran beside backward, seconds.
  double hidden_seconds() const { return beside_ == nullptr ? 0 : beside_->hidden_seconds(); }

 private:
  // How far one worker is in its last node of a step.
  struct Progress {
    int64_t shards_left = 0;
    bool early = false;         // its gradients come one by one
    std::vector<bool> taken;    // of each parameter
    std::vector<int64_t> left;  // parameters, of each bucket
  };
  void take_parameter(Share thread, size_t parameter, const at::Tensor& gradient);

  comm::Communicator& comm_;
  const std::unique_ptr<GradientCompressor> way_;
  const SharedWeights& weights_;
  const std::function<bool()> agree_;
  const bool in_place_;
  std::vector<Progress> progress_;       // one per worker of this process, written by it alone
  std::vector<int64_t> bucket_sizes_;    // parameters
  std::vector<size_t> bucket_of_;        // of each parameter
  std::vector<comm::NodeStack> stacks_;  // one per worker of this process, written by it alone
  std::vector<comm::Node> nodes_;        // of the step, enough to finish the tree
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<BucketExchange> beside_;  // null: all in synchronize()
};

}  // namespace lockstep::train
