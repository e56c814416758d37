// Runs shards on an instance of the network, knows nothing of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/kernels/direct_convolution.h"
#include "lockstep/nn/network.h"
#include "lockstep/kernels/shards_together.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/step/gradient_watch.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/recorded_shards.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

struct PieceCounts {
  int64_t samples = 0;
  int64_t targets = 0;  ///< samples with a label, or labelled time steps
};

/// What a shard gives beside its gradients. Sums, so that shards add. A device works on while the host goes
/// ahead, so they are read back by reduce_results(), once for all shards of a step; until then loss, correct
/// and moments are empty.
struct ShardResult {
  double loss = 0;  ///< sum of the samples' losses
  int64_t correct = 0;
  int64_t count = 0;    ///< samples
  int64_t targets = 0;  ///< what loss and correct are sums over: samples with a label, or labelled time steps
  std::vector<Moments> moments = {};  ///< one per batch norm; empty in validation
  double forward_seconds = 0;
  double backward_seconds = 0;  ///< on a GPU: until it was told what to do, not until it was done
  std::vector<at::Tensor> unread =
      {};  ///< of each piece of an accumulation, on the device: loss, correct, batch norms' statistics
  std::vector<PieceCounts> unread_counts = {};  ///< of each piece
  std::vector<at::Tensor> hidden_state = {};    ///< recurrent state after the shard, [b,...] each
};

/// Its samples with a label, or labelled time steps.
int64_t target_count(const data::Shard& shard);

/// Fills in the results [0, count), of which each rank has computed some: reads back what is unread, all in
/// one copy, and brings the ranks' parts together. Afterwards all ranks have the same numbers. pieces: of an
/// accumulation, at most; norms: whose statistics are in `unread`.
void reduce_results(std::vector<ShardResult>& results, int64_t count, int64_t pieces,
                    const std::vector<BatchNormInfo>& norms, comm::Communicator& comm);

/// What random layers draw by, so that a shard repeats whichever worker has it.
uint64_t shard_seed(int64_t seed, int64_t step, int64_t shard, int64_t piece);

struct ShardRunnerOptions {
  data::InputFormat format = {};
  Precision precision = Precision::single;
  int64_t accumulate = 1;
  int64_t seed = 0;
  Kernels kernels = Kernels::auto_;
  bool padded_left = false;  ///< sequences
  size_t frozen_layers = 0;  ///< above 0: of a shard with `input`, that is what the network's first layers,
                             ///< so many, gave (features())
  RecordingOptions recording = {};  ///< where recording_obstacle() knows of none
};

/// What the shards of a run are computed with, as it is planned.
ShardRunnerOptions shard_runner_options(const Plan& plan);

/// A new instance whose first weights are a function of the seed.
nn::Instance seeded_instance(const nn::Network& network, const nn::NetworkInput& input, int64_t seed);

/// An instance of the network, its parameters being aliases of some weights. One thread at a time.
struct NetworkCopy {
  /// `instance`'s parameters must already alias `weights`.
  NetworkCopy(nn::Instance instance, const SharedWeights& weights, const std::vector<BatchNormInfo>& norms);

  /// The gradients of the last training pass, one per parameter, undefined where a parameter took no part.
  std::vector<at::Tensor> gradients() const;

  /// Throws invalid_option when a parameter no longer aliases the weights (a module that replaced its own
  /// parameter).
  void check_aliases() const;

  nn::Instance instance;
  const SharedWeights* weights;
  BatchNorms norms;
  std::vector<at::Tensor> parameters;
  bool training = false;  ///< in training mode
};

/// Belongs to one thread, which must run on one core (at::set_num_threads(1)) for repeatable bits.
class ShardRunner {
 public:
  /// `instance`'s parameters must already alias `weights`.
  ShardRunner(nn::Instance instance, const SharedWeights& weights, const std::vector<BatchNormInfo>& norms,
              ShardRunnerOptions options);
  ~ShardRunner();

  /// Forward and backward of one shard of step `step`, scaled by 1 / target_count of the whole mini-batch;
  /// gradients() then holds its gradients. `hidden_state` is the recurrent state to begin with, [b,...] each;
  /// empty: zeros.
  ShardResult train(const data::Shard& shard, int64_t target_count, int64_t step,
                    const std::vector<at::Tensor>& hidden_state = {});

  /// The same on another copy of the network, which then holds the gradients.
  ShardResult train(NetworkCopy& copy, const data::Shard& shard, int64_t target_count, int64_t step,
                    const std::vector<at::Tensor>& hidden_state = {});

  /// What the loss is multiplied with before backward, from now on; so gradients are, too.
  void set_loss_scale(double factor) { loss_scale_ = factor; }

  /// In how many pieces each shard is computed from now on, in place of ShardRunnerOptions::accumulate.
  void set_pieces(int64_t pieces);

  /// How many shards of so many samples train_together() takes at most: 1 until one of them was trained
  /// alone, for then it is known whether each layer keeps shards apart; and where that many samples fill the
  /// caches by themselves.
  int64_t most_together(int64_t samples) const;

  /// As train() of shards of equal size one after the other (data::joined), which are a node of the tree: a
  /// result for each, of the same bits; gradients() then holds the node's sum.
  std::vector<ShardResult> train_together(const data::Shard& joined, int64_t shards, int64_t target_count);

  /// In the last piece of the next train() on this runner's own copy, each parameter's gradient is given to
  /// `take` as soon as backward has made it, if the parameter takes part.
  using TakeGradient = std::function<void(size_t parameter, const at::Tensor& gradient)>;
  void hand_over_early(TakeGradient take);

  /// The gradients of the last train() on this runner's own copy.
  std::vector<at::Tensor> gradients() const { return own_.gradients(); }

  /// Forward only, in evaluation mode. logits, when given, receives [b,classes] (or [b,classes,T]) in float32
  /// or float64.
  ShardResult evaluate(const data::Shard& shard, at::Tensor* logits = nullptr,
                       const std::vector<at::Tensor>& hidden_state = {});

  /// What the first layers (ShardRunnerOptions::frozen_layers) give for u8 images [b,C,H,W]; for frozen ones,
  /// which are always in evaluation mode.
  at::Tensor features(const at::Tensor& images);

  /// Switches to evaluation mode with the masters' statistics.
  void begin_evaluation();

  /// Of this runner's own copy.
  void check_aliases() const { own_.check_aliases(); }

 private:
  /// What forward and backward of one batch are made for.
  struct Pass {
    NetworkCopy& copy;
    const data::Shard& samples;  // a shard, a piece of one, or several
    int64_t target_count;        // of the whole mini-batch
    std::vector<at::Tensor> hidden_state = {};
    bool is_last = true;                     // of its shard
    std::unique_lock<std::mutex> turn = {};  // to draw random numbers, until forward is done
  };
  void begin_training(NetworkCopy& copy) const;
  bool train_recorded(const data::Shard& shard, int64_t target_count, ShardResult& result);
  void compute_recorded(RecordedPass& pass);
  void train_pass(Pass pass, const kernels::ShardsTogether& together, std::span<ShardResult> results);
  nn::SequenceOutput output_of(NetworkCopy& copy, const data::Shard& shard,
                               const std::vector<at::Tensor>& hidden_state);

  NetworkCopy own_;
  ShardRunnerOptions options_;
  device::RandomScope random_;
  kernels::DirectConvolutions convolutions_;
  const bool layers_keep_apart_;  // each layer keeps shards apart, as far as it knows before its inputs come
  RecordedShards recorded_;
  std::map<int64_t, bool> kept_apart_;  // whether all did, by the samples of a shard
  double loss_scale_ = 1;
  TakeGradient take_early_;               // of the next train()
  std::unique_ptr<GradientWatch> watch_;  // made when it is first needed
};

/// Casts of the weights that autocast makes: kept over the shards of a step, or made anew each time (where no
/// gradient is recorded, for a kept cast would then lack its gradient).
enum class WeightCasts { keep, renew };

/// For code that runs a network in bf16-mixed or fp16-mixed: autocast for this thread while it lives, and
/// what was before it afterwards; forget_casts() after each update, when no thread of this training is in a
/// forward pass. LibTorch has one cache for the process: casts of other trainings are made once more, with
/// the same bits where a forward pass uses each weight once, as layer graphs do.
class AutocastScope {
 public:
  AutocastScope(Precision precision, c10::DeviceType device, WeightCasts casts);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  static void forget_casts();

 private:
  bool enabled_;
  c10::DeviceType device_;
  bool outer_enabled_;
  at::ScalarType outer_type_;
  bool outer_cache_;
};

}  // namespace lockstep::train
