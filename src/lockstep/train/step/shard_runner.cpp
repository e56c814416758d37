#include "lockstep/train/step/shard_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/seed.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/losses.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/plain_tensor.h"

namespace lockstep::train {
namespace {

void check_logits(const at::Tensor& logits, const at::Tensor& target) {
  const int64_t count = target.size(0);
  if (logits.dim() == target.dim() + 1 && logits.size(0) == count &&
      logits.sizes().slice(2) == target.sizes().slice(1))
    return;
  if (target.dim() == 2) {
    throw Error(ErrorCode::invalid_option,
                "the network gives " + c10::str(logits.sizes()) + " for " + std::to_string(count) +
                    " sequences whose " + std::to_string(target.size(1)) +
                    " time steps have a class each, not [" + std::to_string(count) + ", classes, " +
                    std::to_string(target.size(1)) + "]");
  }
  throw Error(ErrorCode::invalid_option,
              "the network gives " + c10::str(logits.sizes()) + " for " + std::to_string(count) +
                  " images, not [" + std::to_string(count) + ", classes]",
              "end it with a flatten and a fully connected layer");
}

// Samples [begin, begin + count) of a shard.
data::Shard part_of_shard(const data::Shard& shard, Range part) {
  const auto rows = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, part.begin, part.count()) : tensor;
  };
  return {.index = shard.index,
          .images = rows(shard.images),
          .target = rows(shard.target),
          .count = part.count(),
          .input = rows(shard.input),
          .lengths = rows(shard.lengths),
          .continues = rows(shard.continues),
          .mixed_target = rows(shard.mixed_target),
          .target_share = rows(shard.target_share)};
}

std::vector<at::Tensor> part_of_rows(const std::vector<at::Tensor>& all, Range part) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : all) rows.push_back(tensor.narrow(0, part.begin, part.count()));
  return rows;
}

void append_rows(std::vector<at::Tensor>& all, const std::vector<at::Tensor>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (all.size() <= i) {
      all.push_back(rows[i]);
    } else {
      all[i] = at::cat({all[i], rows[i]});
    }
  }
}

// With two workers on a Xeon lenet, 8 samples a shard, has 1.6 times as many images/s with 32 as with 8;
// bench/mnist-99.json, 32 a shard, 1.1 times with 64; digits_cnn, 16 a shard, 1.03 times with 32 and 1.09
// with 64. More would fill memory, and leave nothing to take over from a slow worker.
constexpr int64_t kSamplesTogether = 64;

/// The loss that backward begins with, and its part of each shard, without a graph.
struct Loss {
  at::Tensor sum;
  std::vector<at::Tensor> of_each;
};

// Each shard's is summed by itself, for the order of a sum depends on its length.
Loss loss_of_several(const at::Tensor& logits, const at::Tensor& target,
                     const std::vector<at::Tensor>& targets) {
  const at::Tensor logarithms = at::log_softmax(logits, 1);
  const auto loss_from = [](const at::Tensor& rows, const at::Tensor& wanted) {
    return at::nll_loss(rows, wanted, {}, at::Reduction::Sum, nn::kNoClass);
  };
  Loss loss{loss_from(logarithms, target), logarithms.detach().chunk(static_cast<int64_t>(targets.size()))};
  for (size_t i = 0; i < targets.size(); ++i) loss.of_each[i] = loss_from(loss.of_each[i], targets[i]);
  return loss;
}

// With mixup: the two targets' losses by their shares.
at::Tensor sum_of_losses(const at::Tensor& logits, const at::Tensor& target, const data::Shard& shard) {
  if (!shard.mixed_target.defined()) return nn::cross_entropy_sum(logits, target);
  const at::Tensor share = shard.target_share.to(logits.options(), /*non_blocking=*/true);
  const at::Tensor other = shard.mixed_target.to(target.options(), /*non_blocking=*/true);
  const auto loss_each = [&](const at::Tensor& wanted) {
    return at::cross_entropy_loss(logits, wanted, {}, at::Reduction::None, nn::kNoClass);
  };
  return (share * loss_each(target) + (1 - share) * loss_each(other)).sum();
}

Loss training_loss(const at::Tensor& logits, const at::Tensor& target, const data::Shard& shard) {
  const at::Tensor sum = sum_of_losses(logits, target, shard);
  return {sum, {sum.detach()}};
}

bool layers_keep_apart(const nn::Instance& instance) {
  return !instance.layers.empty() &&
         std::all_of(instance.layers.begin(), instance.layers.end(), [](const nn::InstanceLayer& layer) {
           return layer.keeps_shards_apart && !layer.random;
         });
}

// As at::argmax: the first of the largest, and a NaN is larger than all.
int64_t largest_of(const float* row, int64_t classes) {
  return std::max_element(row, row + classes,
                          [](float a, float b) { return !std::isnan(a) && (std::isnan(b) || a < b); }) -
         row;
}

// double [2]: loss, correct. On the host without LibTorch's operators, which would take longer than a small
// network's layer.
at::Tensor loss_and_correct(const at::Tensor& loss, const at::Tensor& logits, const at::Tensor& target) {
  if (!is_plain(logits, at::kFloat) || logits.dim() != 2 || !is_plain(target, at::kLong)) {
    return at::cat(
        {loss.to(at::kDouble).view({1}), logits.argmax(1).eq(target).sum().to(at::kDouble).view({1})});
  }
  const auto* row = logits.const_data_ptr<float>();
  int64_t correct = 0;
  for (int64_t i = 0; i < logits.size(0); ++i, row += logits.size(1))
    correct += largest_of(row, logits.size(1)) == target.const_data_ptr<int64_t>()[i];
  at::Tensor both = at::empty({2}, at::kDouble);
  both.mutable_data_ptr<double>()[0] = loss.item<double>();
  both.mutable_data_ptr<double>()[1] = static_cast<double>(correct);
  return both;
}

// double [2 + values]: loss, correct, the batch norms' statistics, all on the device.
at::Tensor unread_of(const at::Tensor& loss, const at::Tensor& logits, const at::Tensor& target,
                     const at::Tensor& statistics) {
  const at::Tensor both = loss_and_correct(loss, logits, target);
  return statistics.defined() ? at::cat({both, statistics}) : both;
}

}  // namespace

uint64_t shard_seed(int64_t seed, int64_t step, int64_t shard, int64_t piece) {
  return seed_of({static_cast<uint64_t>(seed), static_cast<uint64_t>(step), static_cast<uint64_t>(shard),
                  static_cast<uint64_t>(piece)});
}

int64_t target_count(const data::Shard& shard) {
  if (!is_plain(shard.target, at::kLong)) return shard.target.ne(nn::kNoClass).sum().item<int64_t>();
  const auto* target = shard.target.const_data_ptr<int64_t>();
  return shard.target.numel() - std::count(target, target + shard.target.numel(), nn::kNoClass);
}

namespace {

// A row for each piece of each shard: its samples, its targets, loss, correct, statistics. A rank's rows are
// zero where another one computed the shard, so adding them up changes no bit.
at::Tensor table_of(const std::vector<ShardResult>& results, int64_t count, int64_t pieces, int64_t width) {
  const at::Tensor table = at::zeros({count * pieces, 2 + width}, at::kDouble);
  std::vector<at::Tensor> unread;
  for (int64_t i = 0; i < count; ++i)
    unread.insert(unread.end(), results[static_cast<size_t>(i)].unread.begin(),
                  results[static_cast<size_t>(i)].unread.end());
  if (unread.empty()) return table;
  const at::Tensor host = at::stack(unread).cpu();
  const double* from = host.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    double* row = table.mutable_data_ptr<double>() + i * pieces * (2 + width);
    for (const auto [samples, targets] : results[static_cast<size_t>(i)].unread_counts) {
      row[0] = static_cast<double>(samples);
      row[1] = static_cast<double>(targets);
      std::copy_n(from, width, row + 2);
      row += 2 + width;
      from += width;
    }
  }
  return table;
}

}  // namespace

void reduce_results(std::vector<ShardResult>& results, int64_t count, int64_t pieces,
                    const std::vector<BatchNormInfo>& norms, comm::Communicator& comm) {
  int64_t width = 2;
  for (const BatchNormInfo& norm : norms) width += 2 * norm.channels;
  const at::Tensor table = table_of(results, count, pieces, width);
  comm.all_reduce({table}, comm::Reduction::sum);
  const double* row = table.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    ShardResult result;
    for (int64_t piece = 0; piece < pieces; ++piece, row += 2 + width) {
      const auto samples = static_cast<int64_t>(row[0]);
      if (samples == 0) continue;
      result.count += samples;
      result.targets += static_cast<int64_t>(row[1]);
      result.loss += row[2];
      result.correct += static_cast<int64_t>(row[3]);
      const auto moments = moments_from(norms, row + 4, samples);
      for (size_t m = 0; m < moments.size(); ++m) {
        if (result.moments.size() <= m) {
          result.moments.push_back(moments[m]);
        } else {
          result.moments[m] = pooled(result.moments[m], moments[m]);
        }
      }
    }
    results[static_cast<size_t>(i)] = std::move(result);
  }
}

AutocastScope::AutocastScope(Precision precision, c10::DeviceType device, WeightCasts casts)
    : enabled_(is_mixed(precision)),
      device_(device),
      outer_enabled_(at::autocast::is_autocast_enabled(device)),
      outer_type_(at::autocast::get_autocast_dtype(device)),
      outer_cache_(at::autocast::is_autocast_cache_enabled()) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, precision == Precision::fp16_mixed ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(casts == WeightCasts::keep);
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, outer_enabled_);
  at::autocast::set_autocast_dtype(device_, outer_type_);
  at::autocast::set_autocast_cache_enabled(outer_cache_);
}

void AutocastScope::forget_casts() { at::autocast::clear_cache(); }

ShardRunnerOptions shard_runner_options(const Plan& plan) {
  return {.format = {number_type(plan.step.precision), open_device(plan.machine.device, plan.machine.gpu),
                     plan.data.mean, plan.data.deviation},
          .precision = plan.step.precision,
          .accumulate = plan.step.accumulate,
          .seed = plan.step.seed,
          .kernels = plan.step.kernels,
          .padded_left = plan.data.format.padding == data::PaddingSide::left,
          .frozen_layers = plan.network.keep_features ? static_cast<size_t>(plan.network.frozen_layers) : 0};
}

nn::Instance seeded_instance(const nn::Network& network, const nn::NetworkInput& input, int64_t seed) {
  const device::RandomScope random(at::kCPU, static_cast<uint64_t>(seed));
  return network.make(input);
}

NetworkCopy::NetworkCopy(nn::Instance network, const SharedWeights& aliased,
                         const std::vector<BatchNormInfo>& info)
    : instance(std::move(network)),
      weights(&aliased),
      norms(instance, info),
      parameters(aliased.learned(instance)) {}

std::vector<at::Tensor> NetworkCopy::gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void NetworkCopy::check_aliases() const {
  const auto expected = weights->views(weights->flat());
  const auto now = weights->learned(instance);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (now[i].const_data_ptr() != expected[i].const_data_ptr()) {
      throw Error(ErrorCode::invalid_option,
                  "the network replaced its parameter \"" + weights->slots()[i].name + "\" during training",
                  "change parameters in place only");
    }
  }
}

ShardRunner::ShardRunner(nn::Instance instance, const SharedWeights& weights,
                         const std::vector<BatchNormInfo>& norms, ShardRunnerOptions options)
    : own_(std::move(instance), weights, norms),
      options_(std::move(options)),
      random_(weights.device(), 0),
      convolutions_(options_.kernels == Kernels::auto_),
      layers_keep_apart_(layers_keep_apart(own_.instance)),
      recorded_(options_.recording, [this](RecordedPass& pass) { compute_recorded(pass); }) {}

ShardRunner::~ShardRunner() {
  // They hold the weights, and after a stop nobody else forgets them.
  if (is_mixed(options_.precision)) AutocastScope::forget_casts();
}

nn::SequenceOutput ShardRunner::output_of(NetworkCopy& copy, const data::Shard& shard,
                                          const std::vector<at::Tensor>& hidden_state) {
  nn::SequenceOutput output;
  if (shard.input.defined()) {
    const at::Tensor features =
        shard.input.to(options_.format.device, shard.input.scalar_type(), /*non_blocking=*/true);
    output.logits = copy.instance.forward_part(features, options_.frozen_layers, copy.instance.layers.size());
    check_logits(output.logits, shard.target);
    return output;
  }
  const at::Tensor input = data::to_input(shard.images, options_.format);
  if (!shard.lengths.defined()) {
    output.logits = copy.instance.forward(input);
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

ShardResult ShardRunner::train(const data::Shard& shard, int64_t target_count, int64_t step,
                               const std::vector<at::Tensor>& hidden_state) {
  ShardResult result;
  if (train_recorded(shard, target_count, result)) return result;
  return train(own_, shard, target_count, step, hidden_state);
}

// False where the shard must go the usual way; nothing has happened then.
bool ShardRunner::train_recorded(const data::Shard& shard, int64_t target_count, ShardResult& result) {
  if (!recorded_.is_on() || options_.accumulate > 1 || take_early_ != nullptr || shard.input.defined() ||
      shard.lengths.defined() || shard.mixed_target.defined())
    return false;
  const auto start = std::chrono::steady_clock::now();
  begin_training(own_);
  const RecordedPass* pass =
      recorded_.run(data::to_input(shard.images, options_.format), shard.target,
                    loss_scale_ / static_cast<double>(std::max<int64_t>(1, target_count)));
  if (pass == nullptr) return false;
  for (size_t i = 0; i < own_.parameters.size(); ++i) own_.parameters[i].mutable_grad() = pass->gradients[i];
  result.unread = {pass->unread.clone()};  // the step's next shard leaves its own there
  result.unread_counts = {{shard.count, lockstep::train::target_count(shard)}};
  result.backward_seconds = seconds_since(start);  // forward is part of it
  return true;
}

// As train_pass, but for the casts: those that autocast keeps over shards may be of another recording.
void ShardRunner::compute_recorded(RecordedPass& pass) {
  at::Tensor wide, loss;
  {
    const AutocastScope autocast(options_.precision, options_.format.device.type(), WeightCasts::renew);
    const at::Tensor logits = own_.instance.forward(pass.input);
    check_logits(logits, pass.target);
    wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
    loss = nn::cross_entropy_sum(wide, pass.target);
  }
  pass.unread = unread_of(loss.detach(), wide.detach(), pass.target, own_.norms.statistics());
  loss.backward(pass.scale);
  pass.gradients = own_.gradients();
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
  const at::Tensor target = own.target.to(options_.format.device, at::kLong, /*non_blocking=*/true);
  const std::vector<at::Tensor> targets = target.chunk(shards);
  Loss loss;
  at::Tensor wide;
  {
    // A module of one's own may use a weight twice. Its gradient is then added in bfloat16 where one cast is
    // kept, in float32 where there are two, and other trainings of the process forget casts at any time.
    const AutocastScope autocast(options_.precision, options_.format.device.type(),
                                 pass.copy.instance.layers.empty() ? WeightCasts::renew : WeightCasts::keep);
    const nn::SequenceOutput output = output_of(pass.copy, own, pass.hidden_state);
    wide = output.logits.scalar_type() == at::kDouble ? output.logits : output.logits.to(at::kFloat);
    loss = shards == 1 ? training_loss(wide, target, own) : loss_of_several(wide, target, targets);
    append_rows(results.front().hidden_state, output.hidden_state);
  }
  pass.turn = {};  // all is drawn
  const std::vector<at::Tensor> logits = wide.detach().chunk(shards);
  for (int64_t i = 0; i < shards; ++i) {
    const auto place = static_cast<size_t>(i);
    results[place].unread.push_back(
        unread_of(loss.of_each[place], logits[place], targets[place],
                  shards == 1 ? pass.copy.norms.statistics() : pass.copy.norms.statistics(together, i)));
    results[place].unread_counts.push_back(
        {own.count / shards, shards == 1 ? lockstep::train::target_count(own) : own.count / shards});
  }
  const auto middle = std::chrono::steady_clock::now();
  if (watch_ != nullptr) watch_->set_on(take_early_ != nullptr && pass.is_last);
  loss.sum.backward(at::full({}, loss_scale_ / static_cast<double>(std::max<int64_t>(1, pass.target_count)),
                             loss.sum.options()));
  results.front().forward_seconds += seconds_between(start, middle);
  results.front().backward_seconds += seconds_since(middle);
}

ShardResult ShardRunner::train(NetworkCopy& copy, const data::Shard& shard, int64_t target_count,
                               int64_t step, const std::vector<at::Tensor>& hidden_state) {
  begin_training(copy);
  ShardResult result;
  const int64_t pieces = used_shards(options_.accumulate, shard.count);
  const kernels::ShardsTogether alone(1);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Range part = part_of(shard.count, pieces, piece);
    const data::Shard own = pieces == 1 ? shard : part_of_shard(shard, part);
    train_pass({copy, own, target_count, part_of_rows(hidden_state, part), piece + 1 == pieces,
                random_.reseed(shard_seed(options_.seed, step, shard.index, piece))},
               alone, {&result, 1});
  }
  take_early_ = nullptr;
  kept_apart_.emplace(shard.count, layers_keep_apart_ && pieces == 1 && !shard.mixed_target.defined() &&
                                       !shard.input.defined() && !alone.mixed());
  return result;
}

void ShardRunner::set_pieces(int64_t pieces) {
  options_.accumulate = pieces;
  kept_apart_.clear();
}

int64_t ShardRunner::most_together(int64_t samples) const {
  const auto known = kept_apart_.find(samples);
  return known != kept_apart_.end() && known->second ? std::max<int64_t>(1, kSamplesTogether / samples) : 1;
}

std::vector<ShardResult> ShardRunner::train_together(const data::Shard& joined, int64_t shards,
                                                     int64_t target_count) {
  begin_training(own_);
  std::vector<ShardResult> results(static_cast<size_t>(shards));
  const kernels::ShardsTogether together(shards);
  train_pass({own_, joined, target_count}, together, results);
  take_early_ = nullptr;
  return results;
}

at::Tensor ShardRunner::features(const at::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const AutocastScope autocast(options_.precision, options_.format.device.type(), WeightCasts::renew);
  return own_.instance.forward_part(data::to_input(images, options_.format), 0, options_.frozen_layers);
}

void ShardRunner::begin_evaluation() {
  own_.instance.module->eval();
  own_.training = false;
  own_.norms.load(*own_.weights);
}

ShardResult ShardRunner::evaluate(const data::Shard& shard, at::Tensor* logits,
                                  const std::vector<at::Tensor>& hidden_state) {
  const torch::NoGradGuard no_grad;
  const AutocastScope autocast(options_.precision, options_.format.device.type(), WeightCasts::renew);
  nn::SequenceOutput output = output_of(own_, shard, hidden_state);
  const at::Tensor wide =
      output.logits.scalar_type() == at::kDouble ? output.logits : output.logits.to(at::kFloat);
  ShardResult result;
  result.count = shard.count;
  result.hidden_state = std::move(output.hidden_state);
  const at::Tensor target = shard.target.to(options_.format.device, at::kLong, /*non_blocking=*/true);
  result.unread.push_back(unread_of(nn::cross_entropy_sum(wide, target), wide, target, {}));
  result.unread_counts.push_back({shard.count, target_count(shard)});
  if (logits != nullptr) *logits = wide.cpu();
  return result;
}

}  // namespace lockstep::train
