// Averaging mode: replicas train on mini-batches of their own and become their average every few rounds. Local SGD (Stich 2018,
// arXiv:1805.09767), Deeplearning4j's ParallelWrapper (ParallelWrapper.java), and with an outer optimizer DiLoCo (arXiv:2311.08105).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/batch_norm.h"
#include "lockstep/train/optimizer.h"
#include "lockstep/train/options.h"
#include "lockstep/train/replica.h"
#include "lockstep/train/shared_weights.h"
#include "lockstep/train/updater.h"

namespace lockstep::train {

struct AveragingOptions {
  int64_t frequency = 1;           ///< rounds from one average to the next
  int64_t last_round = 0;          ///< after which there is an average too
  bool average_updaters = true;    ///< the optimizer's state too; else each replica keeps its own
  OuterOptimizer outer = OuterOptimizer::none;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  double gradient_clip = 0;        ///< of each replica's gradient
};

/// The mean of `parts` weighted with `samples`, of their shape and type: added in double in the fixed tree over the parts, those without
/// samples left out, and rounded once. Whole numbers are rounded to the nearest. At least one part has samples.
at::Tensor weighted_mean(const std::vector<at::Tensor>& parts, const std::vector<int64_t>& samples);

/// The replicas and the masters that they become. A replica is plain training with one shard: its own weights, batch norms' statistics and
/// optimizer. In a round, replica i trains on shard i of the round's samples. The number of replicas decides the weights; which worker
/// runs which replica does not, so a worker that is done takes the next one. At an average, masters and replicas become the mean over
/// the samples since the last average: parameters, running statistics and counters of batch norms (mean of means and mean of variances,
/// as in ParallelWrapper.java, where they are parameters), and the optimizer's state.
/// Threads: the training loop's barriers order all calls.
class Averaging {
 public:
  /// `masters` and `optimizer` receive the averages, and must outlive the object. `instances`: one per replica, of the masters' network.
  Averaging(comm::ThreadGroup& group, SharedWeights& masters, const Optimizer& optimizer, std::vector<nn::Instance> instances, std::vector<BatchNormInfo> norms,
            AveragingOptions options);

  /// Whether all replicas are the average after this round.
  bool is_average(int64_t round) const { return round % options_.frequency == 0 || round >= options_.last_round; }

  /// Before the first round after `round`, on one thread: after an average the replicas begin from the masters.
  void begin(int64_t round);

  /// The replica's network, for whoever computes its shard.
  NetworkCopy& network(int64_t replica) { return replicas_[static_cast<size_t>(replica)]->network; }

  /// After the replica's backward: keeps the gradients for update().
  void keep_gradients(int64_t replica);

  /// After a barrier, every worker: updates the first `count` replicas with their gradients, each worker its own blocks.
  void update(Share share, int64_t count, const device::UpdateRule& rule);

  /// Rank 0, beside update(): the batch norms' statistics of the first `count` replicas in this round, counted from 1, and the samples they saw.
  void note(const std::vector<ShardResult>& results, int64_t count, int64_t round);

  /// After a barrier, every worker: masters become the average after `round`, and where is_average(round), replicas too. Ends with no barrier.
  void average(Share share, int64_t round);

  /// What a resume after `round` needs beside the masters' weights, as views of the live tensors: the optimizer's state, and in the middle
  /// of a period all of every replica.
  nn::NamedTensors state(int64_t round) const;

  /// Throws as NetworkCopy::check_aliases.
  void check_aliases() const;

 private:
  struct Replica {
    Replica(nn::Instance instance, const SharedWeights& masters, const std::vector<BatchNormInfo>& norms, const Optimizer& like);
    SharedWeights weights;
    Optimizer optimizer;
    NetworkCopy network;
    at::Tensor gradient;               // flat
    std::unique_ptr<Updater> updater;
  };

  void average_range(int64_t begin, int64_t count, bool spread);
  void average_buffers(bool spread);
  at::Tensor outer_step(const at::Tensor& mean, int64_t begin, int64_t count, bool spread);
  std::vector<at::Tensor> of_replicas(const std::function<at::Tensor(const Replica&)>& part) const;

  SharedWeights& masters_;
  const Optimizer& optimizer_;
  std::vector<BatchNormInfo> norms_;
  AveragingOptions options_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  at::Tensor samples_;                 // int64 [replicas], since the last average
  at::Tensor anchor_;                  // flat masters at the last average; with an outer optimizer only
  at::Tensor outer_momentum_;          // flat
};

}  // namespace lockstep::train
