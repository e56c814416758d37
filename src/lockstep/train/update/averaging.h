// Averaging mode: each replica trains on its own mini-batches, and every few rounds all replicas become their
// average. This is local SGD (Stich 2018, arXiv:1805.09767) as in Deeplearning4j's ParallelWrapper
// (ParallelWrapper.java). With an outer optimizer it is DiLoCo (arXiv:2311.08105).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/step/shared_weights.h"
#include "lockstep/train/update/updater.h"

namespace lockstep::train {

struct AveragingOptions {
  int64_t frequency = 1;      ///< rounds from one average to the next
  int64_t warmup_rounds = 0;  ///< each of these first rounds ends with an average, and in it all replicas
                              ///< make the step of their mean gradient
  int64_t first_round = 0;    ///< the replicas are an average after this round as well: an earlier training
                              ///< ended there
  int64_t last_round = 0;     ///< and after this one; 0: not known, see end_after()
  bool average_updaters = true;  ///< average the optimizer's state too; otherwise each replica keeps its own
  OuterOptimizer outer = OuterOptimizer::none;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  double gradient_clip = 0;  ///< of each replica's gradient
};

/// The workers that train the replicas: threads of several ranks.
struct ReplicaWorkers {
  comm::ThreadGroup& group;
  comm::Communicator& comm;
  int64_t replicas = 1;
  std::function<Range(int64_t rank)> replicas_of;  ///< the replicas that a rank has, in rank order
};

/// The replicas, and the masters that receive their averages. A replica is a copy of the network with its own
/// weights, batch norms' statistics and optimizer, and trains as a run with one shard would. In a round,
/// replica i trains on shard i of the round's samples. The weights depend on the number of replicas, but not
/// on the worker that runs a replica, so a worker that is done takes the next replica of its rank.
///
/// At an average, the masters and all replicas become the mean of the replicas, weighted by the samples since
/// the last average. This applies to parameters, to running statistics and counters of batch norms (mean of
/// means and mean of variances, as in ParallelWrapper.java, where they are parameters), and to the
/// optimizer's state. Replicas without samples are left out. Values are added in double in the fixed tree
/// over the replicas and rounded once; whole numbers are rounded to the nearest. The masters are equal on all
/// ranks.
///
/// Threads: the training loop's barriers order all calls.
class Averaging {
 public:
  /// They must outlive the object.
  struct Masters {
    SharedWeights& weights;
    const Optimizer& optimizer;
    std::vector<BatchNormInfo> norms;
  };
  /// make_instance: makes an instance of the masters' network.
  Averaging(ReplicaWorkers workers, Masters masters, AveragingOptions options,
            const std::function<nn::Instance()>& make_instance);

  /// Whether all replicas become their average after this round. After a warm-up the periods begin as in
  /// PyTorch's PeriodicModelAverager.
  bool is_average(int64_t round) const;
  /// The last round before `round` after which they became their average, or 0.
  int64_t last_average_before(int64_t round) const;

  /// In a barrier: `round` is the last one.
  void end_after(int64_t round) { options_.last_round = round; }

  /// Before the first round after `round`, on one thread: if there was an average after `round`, the replicas
  /// become the masters.
  void begin(int64_t round);

  /// The network of a replica of this rank, for the worker that computes its shard.
  NetworkCopy& network(int64_t replica) { return replicas_[static_cast<size_t>(replica)]->network; }

  /// After the backward pass of this replica: keeps the gradients for update().
  void keep_gradients(int64_t replica);

  /// After a barrier, every worker. samples: the number of samples in this round of each of the first
  /// replicas. In a round of the warm-up the gradients of all replicas become the mean gradient of these, and
  /// the call ends with a barrier. Returns how many replicas make a step in this round.
  int64_t share_gradients(Share thread, int64_t round, const std::vector<int64_t>& samples);

  /// After a barrier, every worker: updates its blocks of the first `count` replicas, as far as this rank has
  /// them, with their gradients.
  void update(Share share, int64_t count, const device::UpdateRule& rule);

  /// The first worker, beside update(): takes the batch norms' statistics of the first replicas, and the
  /// number of samples that they saw, from their results in this round, counted from 1.
  void note(std::span<const ShardResult> results, int64_t round);

  /// After a barrier, every worker: the masters become the average after `round`, and if is_average(round),
  /// the replicas too. Ends without a barrier.
  void average(Share thread, int64_t round);

  /// What a resume after `round` needs beside the masters' weights: the optimizer's state and, between two
  /// averages, everything of every replica. These are views of the live tensors. For replicas of other ranks
  /// they are views of the memory that collect() and hand_out() fill.
  nn::NamedTensors state(int64_t round);

  /// Every rank, on one thread between rounds: rank 0 receives the state of all replicas.
  void collect(int64_t round);
  /// Every rank, on one thread before begin(): all receive rank 0's state.
  void hand_out(int64_t round);

  /// Throws as NetworkCopy::check_aliases.
  void check_aliases() const;

 private:
  struct Replica {
    Replica(nn::Instance instance, const SharedWeights& masters, const std::vector<BatchNormInfo>& norms,
            const Optimizer& like);
    SharedWeights weights;
    Optimizer optimizer;
    NetworkCopy network;
    at::Tensor gradient;  // flat
    std::unique_ptr<Updater> updater;
  };

  // A mean that is computed. Its terms are the replicas with samples, in order.
  struct Mean {
    std::vector<size_t> replicas;  // of each term
    std::vector<double> weights;   // of each term
    double total = 0;
    std::array<std::vector<comm::Node>, 2>
        own;                        // this rank's nodes over the terms, double [chunk], used alternately
    std::vector<comm::Node> nodes;  // of the chunk, enough to finish the tree
  };
  // A flat vector of the masters that becomes the average of the same vector of every replica.
  struct Averaged {
    at::Tensor master;
    std::function<at::Tensor(const Replica&)> of;
    bool outer = false;      // the outer optimizer makes its step with the average
    at::Tensor anchor = {};  // receives the average too
  };
  using PartOf = std::function<at::Tensor(const Replica&)>;

  Mean plan_mean(std::span<const int64_t> samples) const;
  std::span<const int64_t> samples_so_far() const {
    return {samples_.const_data_ptr<int64_t>(), replicas_.size()};
  }
  at::Tensor sum_of(Range terms, const PartOf& part) const;
  std::vector<Averaged> averaged(int64_t round) const;
  void average_chunk(Share thread, const Averaged& vector, Range chunk, size_t turn, bool spread);
  void average_buffers(bool spread);
  at::Tensor outer_step(const at::Tensor& mean, int64_t begin, int64_t count, bool spread);
  nn::NamedTensors common_state(int64_t round) const;
  nn::NamedTensors state_of(size_t replica, int64_t round);
  void share_states(int64_t round, const std::function<int64_t(size_t replica)>& root);

  ReplicaWorkers workers_;
  SharedWeights& masters_;
  const Optimizer& optimizer_;
  std::vector<BatchNormInfo> norms_;
  AveragingOptions options_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // null for those of other ranks
  std::vector<nn::NamedTensors> other_states_;      // of replicas of other ranks, if state() was called
  Mean mean_;
  at::Tensor samples_;         // int64 [replicas], since the last average
  at::Tensor anchor_;          // flat masters at the last average; with an outer optimizer only
  at::Tensor outer_momentum_;  // flat
  at::Tensor mean_gradient_;   // flat; in a warm-up only
};

}  // namespace lockstep::train
