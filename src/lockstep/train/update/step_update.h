// How the shards of a step become new weights. There are two ways: the gradients of all shards are added in
// the tree and update one set of weights (tree_update.h), or each shard trains a replica and the replicas are
// averaged (averaging_update.h). The training loop knows only this interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/device/update_rule.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/step/shard_result.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/step/shared_weights.h"
#include "lockstep/train/update/optimizer.h"

namespace lockstep::train {

/// What a worker computes in one piece: a single shard, or the equal shards of a node of the tree.
struct WorkerShards {
  Share thread;         ///< the worker, of those of its process
  ShardRunner& runner;  ///< the worker's
  std::span<const data::Shard> shards;
  const data::Batch& batch;         ///< their mini-batch
  int64_t step = 0;                 ///< steps done before this one
  kernels::NormGroups groups = {};  ///< over which batch norms normalise; none: over each shard
  bool interleaved = false;         ///< the worker computes other shards at the same time, in turns

  Range node() const {
    return {shards.front().index, shards.front().index + static_cast<int64_t>(shards.size())};
  }
};

/// What the shards of a step gave; equal on all ranks.
struct StepResults {
  std::span<const ShardResult> shards;
  const ShardResult& sum;  ///< of all shards, folded in the tree
};

/// What a worker knows when it has updated the weights.
struct StepOutcome {
  bool skipped = false;        ///< the gradient was not finite and changed nothing. On the first worker
  double hidden_exchange = 0;  ///< seconds of the exchange between ranks beside backward
};

/// How messages call the parts of a step, and what else depends on it.
struct PartNames {
  const char* part;          ///< "shard" or "replica"
  bool may_be_more = false;  ///< a larger --shards computes smaller parts of the same mini-batch
};

/// Shared by the workers of a process. In a step every worker calls begin_step(), then compute() for the
/// shards that it takes; in a barrier one thread calls synchronize(); then every worker calls update(), and
/// the first one take_results(); after another barrier every worker calls average_if_due(). The loop's
/// barriers order all calls.
class StepUpdate {
 public:
  virtual ~StepUpdate() = default;

  virtual PartNames part_names() const = 0;
  /// In how many buckets gradients travel between ranks.
  virtual size_t bucket_count() const { return 1; }

  // Before and after training.

  /// Before the first step after `step`, on one thread.
  virtual void begin(int64_t step) = 0;
  /// No step follows after `step`. In a barrier.
  virtual void end_after(int64_t step) = 0;
  /// At the end of training, every worker: the shared weights become those that the run is to have after
  /// `step`. Ends with a barrier if something changes.
  virtual void finish(Share thread, int64_t step) = 0;

  // A step.

  /// The maximum number of shards of this size that compute() takes at once from this worker.
  virtual int64_t most_together(ShardRunner& runner, int64_t samples) const = 0;
  /// Starts a step, or starts it again after it was dropped. Every worker, with its own shards of the batch.
  virtual void begin_step(Share thread, const data::Batch& batch) = 0;
  /// Forward and backward; keeps the gradients. One result for each shard.
  virtual void compute(const WorkerShards& work, std::span<ShardResult> results) = 0;
  /// When every worker of the process has computed its last shard, or has given up: agrees with the other
  /// ranks whether the step is dropped, and brings the gradients together. One thread. shard_count: of the
  /// mini-batch, 0 without one.
  virtual void synchronize(int64_t shard_count) = 0;
  /// Updates the blocks of the weights that this worker owns. `step`: steps done before this one.
  virtual StepOutcome update(Share thread, const data::Batch& batch, int64_t step,
                             const device::UpdateRule& rule) = 0;
  /// On the first worker, beside update(): moves the batch norms' running statistics. `step` counts this one.
  virtual void take_results(const StepResults& results, int64_t step) = 0;
  /// After `step`, every worker. Where the replicas are averaged then, does it, ends with a barrier, and
  /// returns how many seconds it took.
  virtual std::optional<double> average_if_due(Share thread, int64_t step) = 0;

  /// Whether what happens every `every` steps (validation, checkpoints) happens after `step`. 0: never.
  virtual bool is_due(int64_t step, int64_t every) const = 0;

  // State, beside the shared weights, between steps.

  /// What a resume after `step` needs, as views of the live tensors. On rank 0 the state of all ranks, if
  /// collect() was called.
  virtual nn::NamedTensors state(int64_t step) = 0;
  /// Every rank, on one thread: rank 0 receives what the other ranks have of the state.
  virtual void collect(int64_t step) = 0;
  /// Every rank, on one thread, before begin(): all receive what they need of rank 0's state.
  virtual void hand_out(int64_t step) = 0;
  /// Throws as NetworkCopy::check_aliases, for copies of the network that are no worker's own. One thread.
  virtual void check_aliases() const = 0;
};

/// What an update works with. All references must outlive it.
struct UpdateParts {
  const Plan& plan;
  comm::ThreadGroup& group;  ///< the workers of this process
  comm::Communicator& comm;  ///< of the ranks
  SharedWeights& weights;
  const Optimizer& optimizer;
  const std::vector<BatchNormInfo>& norms;
  const nn::Instance& prototype;
  std::function<nn::Instance()> make_instance;  ///< another instance of the prototype's network
  std::function<bool()> agree;  ///< the ranks agree whether this step is dropped; called once a step
  int64_t averaged_step = 0;    ///< after which the replicas were averaged last, at the run's beginning
  int64_t last_step = 0;        ///< the run's last step, as far as is known; 0: not known
};

/// The way that the plan says.
std::unique_ptr<StepUpdate> make_step_update(UpdateParts parts);

}  // namespace lockstep::train
