#include "lockstep/train/step/shard_runner.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/seed.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/step/shard_loss.h"
#include "lockstep/train/step/shard_parts.h"

namespace lockstep::train {
namespace {

// Of the largest output of a layer in float32, for the samples that are evaluated at once. A network holds
// about four such outputs at a time.
constexpr int64_t kPieceBytes = int64_t{16} << 20;

// A power of two, because kernels divide samples into blocks of 4 or 8, and no less than frozen layers take
// anyway; 0 without a layer graph, whose outputs are known.
int64_t samples_of_piece(const nn::Instance& instance, const FrozenLayers& frozen) {
  int64_t largest = 0;
  for (const nn::InstanceLayer& layer : instance.layers) largest = std::max(largest, layer.output_count);
  if (largest == 0) return 0;
  const auto fitting = static_cast<uint64_t>(kPieceBytes / (largest * static_cast<int64_t>(sizeof(float))));
  return std::max(frozen.group, static_cast<int64_t>(std::bit_floor(std::max<uint64_t>(1, fitting))));
}

// The sum of a node's shards, in the first one's memory.
at::Tensor added_in_tree(const std::vector<at::Tensor>& shards) {
  const at::NoGradGuard no_grad;
  return comm::fold(shards, 0, static_cast<int64_t>(shards.size()),
                    [](at::Tensor left, const at::Tensor& right) { return left.add_(right); });
}

}  // namespace

bool layers_keep_apart(const nn::Instance& instance) {
  return !instance.layers.empty() &&
         std::all_of(instance.layers.begin(), instance.layers.end(),
                     [](const nn::InstanceLayer& layer) { return layer.keeps_shards_apart; });
}

uint64_t shard_seed(int64_t seed, int64_t step, int64_t shard, int64_t piece) {
  return seed_of({static_cast<uint64_t>(seed), static_cast<uint64_t>(step), static_cast<uint64_t>(shard),
                  static_cast<uint64_t>(piece)});
}

uint64_t step_seed(int64_t seed, int64_t step) {
  return seed_of({static_cast<uint64_t>(seed), static_cast<uint64_t>(step)});
}

ShardRunner::ShardRunner(nn::Instance instance, const SharedWeights& weights,
                         const std::vector<BatchNormInfo>& norms, ShardRunnerOptions options)
    : own_(std::move(instance), weights, norms),
      options_(std::move(options)),
      random_(weights.device(), 0),
      convolutions_(options_.kernels == Kernels::auto_),
      layers_keep_apart_(options_.module_together || train::layers_keep_apart(own_.instance)),
      random_layers_(std::ranges::count_if(own_.instance.layers, &nn::InstanceLayer::random)),
      piece_(samples_of_piece(own_.instance, options_.frozen)),
      recorded_(options_.recording,
                [this](RecordedPass& pass, device::StepGraph& graph) { compute_recorded(pass, graph); }),
      anomalies_(options_.detect_anomaly ? std::make_unique<AnomalyWatch>(own_.instance) : nullptr) {}

ShardRunner::~ShardRunner() {
  // The casts hold the weights, and after a stop nothing else drops them.
  if (is_mixed(options_.precision)) AutocastScope::forget_casts();
}

nn::SequenceOutput ShardRunner::output_of(NetworkCopy& copy, const data::Shard& shard,
                                          const std::vector<at::Tensor>& hidden_state) {
  nn::SequenceOutput output;
  if (shard.input.defined()) {
    const at::Tensor features =
        shard.input.to(options_.format.device, shard.input.scalar_type(), /*non_blocking=*/true);
    output.logits = copy.instance.forward_part(features, options_.frozen.count, copy.instance.layers.size());
    check_logits(output.logits, shard.target);
    return output;
  }
  const at::Tensor input = data::to_input(shard.images, options_.format);
  if (!shard.lengths.defined()) {
    output.logits = copy.logits(input, options_.frozen);
  } else if (copy.instance.forward_sequences) {
    output = copy.instance.forward_sequences({.values = input,
                                              .lengths = shard.lengths,
                                              .padded_left = options_.padded_left,
                                              .hidden_state = hidden_state});
  } else {
    throw Error(ErrorCode::invalid_option, "the network takes no sequences",
                "its module needs Tensor forward(const nn::Sequences&)");
  }
  check_logits(output.logits, shard.target);
  return output;
}

void ShardRunner::hand_over_early(TakeGradient take) {
  if (watch_ == nullptr)
    watch_ = std::make_unique<GradientWatch>(own_.parameters, [this](size_t parameter) {
      take_early_(parameter, own_.parameters[parameter].grad());
    });
  take_early_ = std::move(take);
}

AutocastScope ShardRunner::autocast(WeightCasts casts) const {
  return {options_.precision, options_.format.device.type(), casts};
}

ShardResult ShardRunner::train(const data::Shard& shard, int64_t target_count, int64_t step,
                               const std::vector<at::Tensor>& hidden_state) {
  if (auto results = train_recorded({shard, 1}, target_count, step)) return std::move(results->front());
  return train_in_pieces(own_, {shard, target_count, step, hidden_state});
}

ShardResult ShardRunner::train(NetworkCopy& copy, const data::Shard& shard, int64_t target_count,
                               int64_t step) {
  return train_in_pieces(copy, {shard, target_count, step});
}

std::optional<std::vector<ShardResult>> ShardRunner::train_recorded(const ShardsOfNode& node,
                                                                    int64_t target_count, int64_t step) {
  const data::Shard& all = node.joined;
  if (!recorded_.is_on() || options_.accumulate > 1 || take_early_ != nullptr || all.input.defined() ||
      all.lengths.defined() || all.mixed_target.defined() || all.class_weights.defined())
    return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  begin_training(own_);
  const at::Tensor input = data::to_input(all.images, options_.format);
  const auto turn = random_.reseed(shard_seed(options_.seed, step, all.index, /*piece=*/0));
  const at::Tensor seeds =
      random_layers_ == 0
          ? at::Tensor()
          : kernels::SampleSeeds::table(step_seed(options_.seed, step), all.first, random_layers_, all.count);
  const RecordedPass* pass =
      recorded_.run({node.shards, input, all.target,
                     loss_scale_ / static_cast<double>(std::max<int64_t>(1, target_count)), seeds});
  if (pass == nullptr) {
    if (!recorded_.is_on()) own_.norms.use_other_memory();  // what a failed recording left has no values
    return std::nullopt;
  }
  norm_groups_.reset();  // a group is a shard
  for (size_t i = 0; i < own_.parameters.size(); ++i) own_.parameters[i].mutable_grad() = pass->gradients[i];
  std::vector<ShardResult> results(static_cast<size_t>(node.shards));
  const at::Tensor unread = pass->unread.clone();  // the next shards write their own values there
  for (int64_t i = 0; i < node.shards; ++i) {
    const Range part = part_of(all.count, node.shards, i);
    ShardResult& result = results[static_cast<size_t>(i)];
    result.unread = {unread[i]};
    result.unread_counts = {{part.count(), lockstep::train::target_count(part_of_shard(all, part))}};
  }
  results.front().backward_seconds = seconds_since(start);  // it includes forward
  return results;
}

// The same as train_pass, except that it renews the casts: kept ones could belong to another recording.
// Gradients are asked for and not accumulated, because an accumulation belongs to one stream of the device.
void ShardRunner::compute_recorded(RecordedPass& pass, device::StepGraph& graph) {
  const std::vector<at::Tensor> inputs = pass.input.chunk(pass.shards),
                                targets = pass.target.chunk(pass.shards);
  const std::vector<at::Tensor> seeds =
      pass.seeds.defined() ? pass.seeds.chunk(pass.shards, 1) : std::vector<at::Tensor>(inputs.size());
  std::vector<at::Tensor> unread(inputs.size()), sums(inputs.size());
  graph.side_by_side(pass.shards, [&](int64_t shard) {
    const auto i = static_cast<size_t>(shard);
    // Always, for a later recording may take away what this one did not allocate.
    if (options_.recording.side_by_side) own_.norms.use_other_memory();
    std::optional<kernels::SampleSeeds> of_samples;
    if (random_layers_ > 0) of_samples.emplace(seeds[i]);
    at::Tensor wide;
    BatchLoss loss;
    {
      const AutocastScope scope = autocast(WeightCasts::renew);
      // A copy, because a library may choose its algorithm by the alignment.
      const at::Tensor logits =
          own_.logits(pass.shards == 1 ? inputs[i] : inputs[i].clone(), options_.frozen);
      check_logits(logits, targets[i]);
      wide = widened(logits);
      loss = loss_of_shard(wide, targets[i], {}, options_.label_smoothing);
    }
    unread[i] = unread_of(loss.of_each, wide.detach(), targets[i], own_.norms.statistics());
    sums[i] = at::zeros_like(own_.weights->flat());
    own_.weights->put(torch::autograd::grad({loss.sum}, own_.parameters, {pass.scale}, /*retain_graph=*/{},
                                            /*create_graph=*/false, /*allow_unused=*/true),
                      sums[i], /*add=*/false);
  });
  pass.unread = at::cat(unread);
  pass.gradients = own_.weights->views(added_in_tree(sums));
}

void ShardRunner::begin_training(NetworkCopy& copy) const {
  if (!copy.training) nn::begin_training(copy.instance);
  copy.training = true;
  for (at::Tensor& parameter : copy.parameters) parameter.mutable_grad().reset();
}

void ShardRunner::train_pass(Pass pass, const kernels::ShardsTogether& together,
                             std::span<ShardResult> results) {
  const auto start = std::chrono::steady_clock::now();
  const data::Shard& own = pass.samples;
  const auto shards = static_cast<int64_t>(results.size());
  const bool watched = anomalies_ != nullptr && &pass.copy == &own_;
  if (watched) anomalies_->begin({pass.step, own.index, options_.precision != Precision::fp16_mixed});
  const at::Tensor target = own.target.to(options_.format.device, at::kLong, /*non_blocking=*/true);
  BatchLoss loss;
  at::Tensor wide;
  {
    const kernels::SampleSeeds seeds(step_seed(options_.seed, pass.step), own.first);
    // A user's module may use a weight twice. Its gradients are then added in bfloat16 if both uses share a
    // kept cast, and in float32 if there are two casts. Another training of the process may forget casts at
    // any time, so the bits would depend on it.
    const AutocastScope scope =
        autocast(pass.copy.instance.layers.empty() ? WeightCasts::renew : WeightCasts::keep);
    const nn::SequenceOutput output = output_of(pass.copy, own, pass.hidden_state);
    wide = widened(output.logits);
    loss = shards == 1 ? loss_of_shard(wide, target, own, options_.label_smoothing)
                       : loss_of_several(wide, target, shards, options_.label_smoothing);
    append_rows(results.front().hidden_state, output.hidden_state);
  }
  pass.turn = {};  // all random numbers are drawn
  const std::vector<at::Tensor> unread =
      unread_of(loss.of_each, wide.detach(), target,
                shards == 1 ? pass.copy.norms.statistics() : pass.copy.norms.statistics(together))
          .unbind();
  for (size_t i = 0; i < unread.size(); ++i) {
    results[i].unread.push_back(unread[i]);
    results[i].unread_counts.push_back(
        {own.count / shards, shards == 1 ? lockstep::train::target_count(own) : own.count / shards});
  }
  const auto middle = std::chrono::steady_clock::now();
  if (watch_ != nullptr) watch_->set_on(take_early_ != nullptr && pass.is_last);
  loss.sum.backward(at::full({}, loss_scale_ / static_cast<double>(std::max<int64_t>(1, pass.target_count)),
                             loss.sum.options()));
  if (watched) anomalies_->check_gradients();
  results.front().forward_seconds += seconds_between(start, middle);
  results.front().backward_seconds += seconds_since(middle);
}

ShardResult ShardRunner::train_in_pieces(NetworkCopy& copy, const Work& work) {
  if (options_.module_together && &copy == &own_) probe(work.shard);
  begin_training(copy);
  ShardResult result;
  const data::Shard& shard = work.shard;
  const int64_t pieces = used_shards(options_.accumulate, shard.count);
  const kernels::ShardsTogether alone = begin_together(1);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Range part = part_of(shard.count, pieces, piece);
    const data::Shard own = pieces == 1 ? shard : part_of_shard(shard, part);
    train_pass(
        {copy, own, work.target_count, work.step, part_of_rows(work.hidden_state, part), piece + 1 == pieces,
         random_.reseed(shard_seed(options_.seed, work.step, shard.index, piece))},
        alone, {&result, 1});
  }
  take_early_ = nullptr;
  if (!options_.module_together) kept_apart_.emplace(shard.count, may_go_together(shard) && !alone.mixed());
  return result;
}

kernels::ShardsTogether ShardRunner::begin_together(int64_t shards) {
  const auto groups = std::exchange(norm_groups_, std::nullopt);
  return groups ? kernels::ShardsTogether(shards, *groups) : kernels::ShardsTogether(shards);
}

bool ShardRunner::may_go_together(const data::Shard& shard) const {
  return layers_keep_apart_ && anomalies_ == nullptr && options_.accumulate == 1 &&
         !shard.mixed_target.defined() && !shard.class_weights.defined() && !shard.input.defined();
}

void ShardRunner::probe(const data::Shard& shard) {
  if (recorded_.is_on() || kept_apart_.contains(shard.count)) return;
  if (options_.module_together) {
    const bool several = shard.count > 1 && 2 * shard.count <= kSamplesTogether;
    if (several) apart_because_ = why_module_apart(shard);
    kept_apart_.emplace(shard.count, several && apart_because_.empty());
    return;
  }
  const kernels::ShardsTogether alone(1);
  const bool may = may_go_together(shard);
  if (may) {
    begin_training(own_);
    const kernels::SampleSeeds seeds(step_seed(options_.seed, 0), shard.first);
    const AutocastScope scope = autocast(WeightCasts::renew);
    output_of(own_, shard, {});
  }
  kept_apart_.emplace(shard.count, may && !alone.mixed());
}

void ShardRunner::set_pieces(int64_t pieces) {
  options_.accumulate = pieces;
  kept_apart_.clear();
}

int64_t ShardRunner::most_together(int64_t samples) {
  if (recorded_.is_on())
    return options_.accumulate == 1
               ? recorded_.most_side_by_side(own_.instance, samples, own_.weights->flat().nbytes())
               : 1;
  const auto known = kept_apart_.find(samples);
  return known != kept_apart_.end() && known->second ? std::max<int64_t>(1, kSamplesTogether / samples) : 1;
}

std::vector<ShardResult> ShardRunner::train_together(const ShardsOfNode& node, int64_t target_count,
                                                     int64_t step) {
  const bool records = recorded_.is_on();
  if (auto recorded = train_recorded(node, target_count, step)) return std::move(*recorded);
  if (records) return train_one_by_one(node, target_count, step);
  begin_training(own_);
  std::vector<ShardResult> results(static_cast<size_t>(node.shards));
  const kernels::ShardsTogether together = begin_together(node.shards);
  train_pass({own_, node.joined, target_count, step}, together, results);
  take_early_ = nullptr;
  return results;
}

// After a recording has failed.
std::vector<ShardResult> ShardRunner::train_one_by_one(const ShardsOfNode& node, int64_t target_count,
                                                       int64_t step) {
  norm_groups_.reset();
  std::vector<ShardResult> results;
  std::vector<at::Tensor> sums;
  for (int64_t i = 0; i < node.shards; ++i) {
    data::Shard shard = part_of_shard(node.joined, part_of(node.joined.count, node.shards, i));
    shard.index += i;
    results.push_back(train_in_pieces(own_, {shard, target_count, step}));
    sums.push_back(at::zeros_like(own_.weights->flat()));
    own_.weights->put(own_.gradients(), sums.back(), /*add=*/false);
  }
  const auto gradients = own_.weights->views(added_in_tree(sums));
  for (size_t i = 0; i < gradients.size(); ++i) own_.parameters[i].mutable_grad() = gradients[i];
  return results;
}

at::Tensor ShardRunner::features(const at::Tensor& images) {
  const AutocastScope scope = autocast(WeightCasts::renew);
  return own_.output_of_frozen(data::to_input(images, options_.format), options_.frozen);
}

}  // namespace lockstep::train
