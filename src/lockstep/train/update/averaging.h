// Averaging mode: replicas train on mini-batches of their own and become their average every few rounds.
// Local SGD (Stich 2018, arXiv:1805.09767), Deeplearning4j's ParallelWrapper (ParallelWrapper.java), and with
// an outer optimizer DiLoCo (arXiv:2311.08105).
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
  int64_t warmup_rounds = 0;  ///< first rounds, each of which ends with an average, and in which all replicas
                              ///< take the step of their mean gradient
  int64_t first_round = 0;    ///< after which the replicas are an average, whatever the frequency: an earlier
                              ///< training ended there
  int64_t last_round = 0;     ///< after which there is an average too; 0: end_after() says it
  bool average_updaters = true;  ///< the optimizer's state too; else each replica keeps its own
  OuterOptimizer outer = OuterOptimizer::none;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  double gradient_clip = 0;  ///< of each replica's gradient
};

/// The workers that train the replicas: threads of several ranks. A rank has the replicas of its shards.
struct ReplicaWorkers {
  comm::ThreadGroup& group;
  comm::Communicator& comm;
  int64_t replicas = 1;
  std::function<Range(int64_t rank)> replicas_of;  ///< neighbours, in rank order
};

/// The replicas and the masters that they become. A replica is plain training with one shard: its own
/// weights, batch norms' statistics and optimizer. In a round, replica i trains on shard i of the round's
/// samples. The number of replicas decides the weights; which worker runs which replica does not, so a worker
/// that is done takes the next one of its rank. At an average, masters and replicas become the mean over the
/// samples since the last average: parameters, running statistics and counters of batch norms (mean of means
/// and mean of variances, as in ParallelWrapper.java, where they are parameters), and the optimizer's state.
/// Values are added in double in the fixed tree over the replicas, those without samples left out, and
/// rounded once; whole numbers to the nearest. Masters are equal on all ranks. Threads: the training loop's
/// barriers order all calls.
class Averaging {
 public:
  /// What receives the averages, and must outlive the object.
  struct Masters {
    SharedWeights& weights;
    const Optimizer& optimizer;
    std::vector<BatchNormInfo> norms;
  };
  /// make_instance: of the masters' network.
  Averaging(ReplicaWorkers workers, Masters masters, AveragingOptions options,
            const std::function<nn::Instance()>& make_instance);

  /// Whether all replicas are the average after this round. After a warm-up the periods begin as PyTorch's
  /// PeriodicModelAverager counts them.
  bool is_average(int64_t round) const;
  /// The last round before `round` of which that is so, or 0.
  int64_t last_average_before(int64_t round) const;

  /// In a barrier: `round` is the last one.
  void end_after(int64_t round) { options_.last_round = round; }

  /// Before the first round after `round`, on one thread: after an average the replicas begin from the
  /// masters.
  void begin(int64_t round);

  /// The network of a replica of this rank, for whoever computes its shard.
  NetworkCopy& network(int64_t replica) { return replicas_[static_cast<size_t>(replica)]->network; }

  /// After the replica's backward: keeps the gradients for update().
  void keep_gradients(int64_t replica);

  /// After a barrier, every worker: in a round of the warm-up the gradients of the first replicas, which had
  /// so many of the round's samples each, become their mean, and that of all replicas; ends with a barrier
  /// then. Returns how many replicas take the round's step.
  int64_t share_gradients(Share thread, int64_t round, const std::vector<int64_t>& samples);

  /// After a barrier, every worker: updates those of the first `count` replicas that are here with their
  /// gradients, each worker its own blocks.
  void update(Share share, int64_t count, const device::UpdateRule& rule);

  /// The first worker, beside update(): the batch norms' statistics of the first `count` replicas in this
  /// round, counted from 1, and the samples they saw.
  void note(const std::vector<ShardResult>& results, int64_t count, int64_t round);

  /// After a barrier, every worker: masters become the average after `round`, and where is_average(round),
  /// replicas too. Ends with no barrier.
  void average(Share thread, int64_t round);

  /// What a resume after `round` needs beside the masters' weights: the optimizer's state, and in the middle
  /// of a period all of every replica. Views of the live tensors; of replicas on other ranks, of the room for
  /// collect() and hand_out().
  nn::NamedTensors state(int64_t round);

  /// Every rank, on one thread between rounds: rank 0's state(round) becomes that of all replicas.
  void collect(int64_t round);
  /// Every rank, on one thread before begin(): all become what rank 0's state(round) is.
  void hand_out(int64_t round);

  /// Throws as NetworkCopy::check_aliases.
  void check_aliases() const;

 private:
  struct ShardRunner {
    ShardRunner(nn::Instance instance, const SharedWeights& masters, const std::vector<BatchNormInfo>& norms,
                const Optimizer& like);
    SharedWeights weights;
    Optimizer optimizer;
    NetworkCopy network;
    at::Tensor gradient;  // flat
    std::unique_ptr<Updater> updater;
  };

  // A mean that is being made. Its terms are the replicas with samples, in order.
  struct Mean {
    std::vector<size_t> replicas;  // of each term
    std::vector<double> weights;   // of each term
    double total = 0;
    std::array<std::vector<comm::Node>, 2>
        own;                        // this rank's nodes over the terms, double [chunk]; chunks take turns
    std::vector<comm::Node> nodes;  // of the chunk, enough to finish the tree
  };
  // One flat vector of every replica that is averaged into one of the masters'.
  struct Averaged {
    at::Tensor master;
    std::function<at::Tensor(const ShardRunner&)> of;
    bool outer = false;      // by the outer optimizer
    at::Tensor anchor = {};  // becomes it too
  };
  using PartOf = std::function<at::Tensor(const ShardRunner&)>;

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
  std::vector<std::unique_ptr<ShardRunner>> replicas_;  // null for those of other ranks
  std::vector<nn::NamedTensors> visitors_;  // state of replicas of other ranks, where it is asked for
  Mean mean_;
  at::Tensor samples_;         // int64 [replicas], since the last average
  at::Tensor anchor_;          // flat masters at the last average; with an outer optimizer only
  at::Tensor outer_momentum_;  // flat
  at::Tensor mean_gradient_;   // flat; in a warm-up only
};

}  // namespace lockstep::train
