// Runs shards on an instance of the network. Ranks and other workers do not exist here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/sample_seeds.h"
#include "lockstep/kernels/shards_together.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/anomaly_watch.h"
#include "lockstep/train/step/answer_counts.h"
#include "lockstep/train/step/autocast_scope.h"
#include "lockstep/train/step/gradient_watch.h"
#include "lockstep/train/step/module_proof.h"
#include "lockstep/train/step/network_copy.h"
#include "lockstep/train/step/recorded_shards.h"
#include "lockstep/train/step/shard_result.h"
#include "lockstep/train/step/shard_runner_options.h"

namespace lockstep::train {

/// Whether each layer accepts several shards in one batch, as far as is known without its inputs; false for a
/// user's module, which is watched and tried (module_proof.h).
bool layers_keep_apart(const nn::Instance& instance);

/// The seed of a shard's random operators. It does not depend on the worker, so the shard repeats anywhere.
uint64_t shard_seed(int64_t seed, int64_t step, int64_t shard, int64_t piece);

/// The seed of the layers of a step that draw for each sample separately (kernels/sample_seeds.h).
uint64_t step_seed(int64_t seed, int64_t step);

/// The shards of a node of the tree as one batch.
struct ShardsOfNode {
  const data::Shard& joined;  ///< data::joined
  int64_t shards;             ///< of equal size
};

/// Belongs to one thread. The thread must run on one core (at::set_num_threads(1)) for repeatable bits.
class ShardRunner {
 public:
  /// The parameters of `instance` must already alias `weights`.
  ShardRunner(nn::Instance instance, const SharedWeights& weights, const std::vector<BatchNormInfo>& norms,
              ShardRunnerOptions options);
  ~ShardRunner();

  /// Forward and backward of one shard in step `step`, scaled by 1 / target_count of the whole mini-batch;
  /// gradients() then holds its gradients. `hidden_state` is the recurrent state to begin with, [b,...] each;
  /// empty: zeros.
  ShardResult train(const data::Shard& shard, int64_t target_count, int64_t step,
                    const std::vector<at::Tensor>& hidden_state = {});

  /// The same on another copy of the network, which then holds the gradients.
  ShardResult train(NetworkCopy& copy, const data::Shard& shard, int64_t target_count, int64_t step);

  /// Sets the factor of the loss, and so of all gradients, from now on.
  void set_loss_scale(double factor) { loss_scale_ = factor; }

  /// Sets the number of pieces of each shard from now on, in place of ShardRunnerOptions::accumulate.
  void set_pieces(int64_t pieces);
  int64_t pieces() const { return options_.accumulate; }

  /// Whether its passes are recorded. A recording may have several backward passes.
  bool records() const { return recorded_.is_on(); }

  /// The maximum number of shards of `samples` samples that train_together() takes. With a recording it
  /// depends on the device's memory. Otherwise it is 1 until a shard of this size was trained alone, which
  /// shows whether each layer keeps shards apart; and 1 if one shard is large enough.
  int64_t most_together(int64_t samples);

  /// Does what train() does for each of several shards, which are a node of the tree: one result each, with
  /// the same bits. gradients() then holds the node's sum.
  std::vector<ShardResult> train_together(const ShardsOfNode& node, int64_t target_count, int64_t step);

  /// Does as much of train() as shows whether each layer keeps shards of this size apart (most_together):
  /// forward only. A user's module is tried (module_proof.h).
  void probe(const data::Shard& shard);

  /// Why the last module that was probed does not take several shards; empty: it does.
  const std::string& apart_because() const { return apart_because_; }

  /// In the next train() or train_together(), which must not cut shards into pieces, batch norms normalise
  /// over these groups; otherwise over each shard.
  void normalize_over(kernels::NormGroups groups) { norm_groups_ = std::move(groups); }

  /// In the last piece of the next train() or train_together() on this runner's own copy, each parameter's
  /// gradient is given to `take` as soon as backward has made it. Parameters without a gradient are left out.
  using TakeGradient = std::function<void(size_t parameter, const at::Tensor& gradient)>;
  void hand_over_early(TakeGradient take);

  /// The gradients of the last train() on this runner's own copy.
  std::vector<at::Tensor> gradients() const { return own_.gradients(); }

  /// Forward only, in evaluation mode. `logits`, if given, receives [b,classes] (or [b,classes,T]) in float32
  /// or float64. Images go through a layer graph on a CPU in pieces whose size depends on the network alone,
  /// so that a large shard needs no more memory than a small one.
  /// `answers`, if given, counts them.
  ShardResult evaluate(const data::Shard& shard, at::Tensor* logits = nullptr,
                       const std::vector<at::Tensor>& hidden_state = {}, AnswerCounts* answers = nullptr);

  /// The same for several shards of equal size, which EvaluationBatches has found to go together: one result
  /// each, with the same bits.
  std::vector<ShardResult> evaluate_together(const data::Shard& joined, int64_t shards,
                                             AnswerCounts* answers = nullptr);

  /// The most samples of several shards that are evaluated at once. Only for a layer graph on a CPU.
  int64_t most_evaluated() const;

  /// The output of ShardRunnerOptions::frozen for u8 images [b,C,H,W].
  at::Tensor features(const at::Tensor& images);

  /// Switches to evaluation mode with the masters' statistics.
  void begin_evaluation();

  /// See NetworkCopy::check_aliases; for this runner's own copy.
  void check_aliases() const { own_.check_aliases(); }

 private:
  /// A shard to train on.
  struct Work {
    const data::Shard& shard;
    int64_t target_count;  // of the whole mini-batch
    int64_t step;
    std::vector<at::Tensor> hidden_state = {};
  };
  /// Forward and backward of one batch.
  struct Pass {
    NetworkCopy& copy;
    const data::Shard& samples;  // a shard, a piece of one, or several
    int64_t target_count;        // of the whole mini-batch
    int64_t step;
    std::vector<at::Tensor> hidden_state = {};
    bool is_last = true;                     // of its shard
    std::unique_lock<std::mutex> turn = {};  // to draw random numbers, until forward is done
  };
  AutocastScope autocast(WeightCasts casts) const;
  kernels::ShardsTogether begin_together(int64_t shards);
  bool may_go_together(const data::Shard& shard) const;
  /// module_proof.cpp
  std::string why_module_apart(const data::Shard& shard);
  PassBits pass_bits(const data::Shard& samples, int64_t shards, bool watched);
  void begin_training(NetworkCopy& copy) const;
  ShardResult train_in_pieces(NetworkCopy& copy, const Work& work);
  /// Nothing, and nothing has happened, if the shards must be trained in the usual way.
  std::optional<std::vector<ShardResult>> train_recorded(const ShardsOfNode& node, int64_t target_count,
                                                         int64_t step);
  void compute_recorded(RecordedPass& pass, device::StepGraph& graph);
  std::vector<ShardResult> train_one_by_one(const ShardsOfNode& node, int64_t target_count, int64_t step);
  void train_pass(Pass pass, const kernels::ShardsTogether& together, std::span<ShardResult> results);
  nn::SequenceOutput output_of(NetworkCopy& copy, const data::Shard& shard,
                               const std::vector<at::Tensor>& hidden_state);
  nn::SequenceOutput output_in_pieces(const data::Shard& shard, const std::vector<at::Tensor>& hidden_state);

  NetworkCopy own_;
  ShardRunnerOptions options_;
  device::RandomScope random_;
  kernels::DirectKernels convolutions_;
  const bool
      layers_keep_apart_;  // each layer does, as far as is known without its inputs; or module_together
  const int64_t random_layers_;
  const int64_t piece_;  // samples that go through the network at once in evaluation; 0: all
  RecordedShards recorded_;
  std::map<int64_t, bool> kept_apart_;              // whether all layers did, by the samples of a shard
  std::optional<kernels::NormGroups> norm_groups_;  // of the next train()
  std::string apart_because_;
  double loss_scale_ = 1;
  TakeGradient take_early_;                  // of the next train()
  std::unique_ptr<GradientWatch> watch_;     // made at the first hand_over_early()
  std::unique_ptr<AnomalyWatch> anomalies_;  // of own_; null: not wanted
};

}  // namespace lockstep::train
