#include "lockstep/train/replica.h"

#include <chrono>

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"

namespace lockstep::train {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check_logits(const at::Tensor& logits, int64_t count) {
  if (logits.dim() == 2 && logits.size(0) == count) return;
  throw Error(ErrorCode::invalid_option, "the network gives " + c10::str(logits.sizes()) + " for " + std::to_string(count) + " pictures, not [" + std::to_string(count) + ", classes]",
              "end it with a flatten and a fully connected layer");
}

// double [2 + values]: loss, correct, the batch norms' statistics, all on the device.
at::Tensor unread_of(const at::Tensor& loss, const at::Tensor& logits, const at::Tensor& target, const at::Tensor& statistics) {
  const at::Tensor correct = logits.argmax(1).eq(target).sum();
  std::vector<at::Tensor> parts{loss.to(at::kDouble).view({1}), correct.to(at::kDouble).view({1})};
  if (statistics.defined()) parts.push_back(statistics);
  return at::cat(parts);
}

}  // namespace

namespace {

// A row for each piece of each shard: its samples, loss, correct, statistics. A rank's rows are zero where another one computed the shard, so
// adding them up changes no bit.
at::Tensor table_of(const std::vector<ShardResult>& results, int64_t count, int64_t pieces, int64_t width) {
  const at::Tensor table = at::zeros({count * pieces, 1 + width}, at::kDouble);
  std::vector<at::Tensor> unread;
  for (int64_t i = 0; i < count; ++i) unread.insert(unread.end(), results[static_cast<size_t>(i)].unread.begin(), results[static_cast<size_t>(i)].unread.end());
  if (unread.empty()) return table;
  const at::Tensor host = at::stack(unread).cpu();
  const double* from = host.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    double* row = table.mutable_data_ptr<double>() + i * pieces * (1 + width);
    for (const int64_t samples : results[static_cast<size_t>(i)].unread_counts) {
      row[0] = static_cast<double>(samples);
      std::copy_n(from, width, row + 1);
      row += 1 + width;
      from += width;
    }
  }
  return table;
}

}  // namespace

void settle(std::vector<ShardResult>& results, int64_t count, int64_t pieces, const std::vector<BatchNormInfo>& norms, comm::Communicator& comm) {
  int64_t width = 2;
  for (const BatchNormInfo& norm : norms) width += 2 * norm.channels;
  const at::Tensor table = table_of(results, count, pieces, width);
  comm.all_reduce({table}, comm::Reduction::sum);
  const double* row = table.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    ShardResult result;
    for (int64_t piece = 0; piece < pieces; ++piece, row += 1 + width) {
      const auto samples = static_cast<int64_t>(row[0]);
      if (samples == 0) continue;
      result.count += samples;
      result.loss += row[1];
      result.correct += static_cast<int64_t>(row[2]);
      const auto moments = moments_from(norms, row + 3, samples);
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

AutocastScope::AutocastScope(Precision precision, c10::DeviceType device, WeightCasts casts) : enabled_(precision == Precision::bf16_mixed), device_(device) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(casts == WeightCasts::keep);
}

AutocastScope::~AutocastScope() {
  if (enabled_) at::autocast::set_autocast_enabled(device_, false);
}

void AutocastScope::forget_casts() { at::autocast::clear_cache(); }

NetworkCopy::NetworkCopy(nn::Instance network, const SharedWeights& aliased, const std::vector<BatchNormInfo>& info)
    : instance(std::move(network)), weights(&aliased), norms(instance, info), parameters(instance.module->parameters()) {}

std::vector<at::Tensor> NetworkCopy::gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void NetworkCopy::check_aliases() const {
  const auto expected = weights->views(weights->flat());
  const auto now = instance.module->parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (now.size() != expected.size() || now[i].const_data_ptr() != expected[i].const_data_ptr()) {
      throw Error(ErrorCode::invalid_option, "the network replaced its parameter \"" + weights->slots()[i].name + "\" during training", "change parameters in place only");
    }
  }
}

Replica::Replica(nn::Instance instance, const SharedWeights& weights, const std::vector<BatchNormInfo>& norms, ReplicaOptions options)
    : own_(std::move(instance), weights, norms),
      options_(std::move(options)),
      random_(weights.device(), 0),
      convolutions_(options_.kernels == Kernels::auto_) {}

at::Tensor Replica::logits_of(NetworkCopy& copy, const at::Tensor& pictures) {
  at::Tensor logits = copy.instance.forward(data::to_input(pictures, options_.format));
  check_logits(logits, pictures.size(0));
  return logits;
}

ShardResult Replica::train(const data::Shard& shard, int64_t global_count, int64_t step) { return train(own_, shard, global_count, step); }

ShardResult Replica::train(NetworkCopy& copy, const data::Shard& shard, int64_t global_count, int64_t step) {
  if (!copy.training) copy.instance.module->train();
  copy.training = true;
  for (at::Tensor& parameter : copy.parameters) parameter.mutable_grad().reset();
  ShardResult result;
  const int64_t pieces = used_shards(options_.accumulate, shard.count);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Range part = part_of(shard.count, pieces, piece);
    random_.reseed(seed_of({static_cast<uint64_t>(options_.seed), static_cast<uint64_t>(step), static_cast<uint64_t>(shard.index), static_cast<uint64_t>(piece)}));
    const auto start = std::chrono::steady_clock::now();
    at::Tensor loss;
    const at::Tensor target = shard.target.narrow(0, part.begin, part.count()).to(options_.format.device, at::kLong, /*non_blocking=*/true);
    at::Tensor wide;
    {
      const AutocastScope autocast(options_.precision, options_.format.device.type(), WeightCasts::keep);
      const at::Tensor logits = logits_of(copy, shard.pictures.narrow(0, part.begin, part.count()));
      wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
      loss = at::cross_entropy_loss(wide, target, {}, at::Reduction::Sum);
    }
    result.unread.push_back(unread_of(loss.detach(), wide.detach(), target, copy.norms.statistics()));
    result.unread_counts.push_back(part.count());
    result.count += part.count();
    const auto middle = std::chrono::steady_clock::now();
    loss.backward(at::full({}, 1.0 / static_cast<double>(global_count), loss.options()));
    result.forward_seconds += std::chrono::duration<double>(middle - start).count();
    result.backward_seconds += seconds_since(middle);
  }
  return result;
}

void Replica::begin_evaluation() {
  own_.instance.module->eval();
  own_.training = false;
  own_.norms.load(*own_.weights);
}

ShardResult Replica::evaluate(const data::Shard& shard, at::Tensor* logits) {
  const torch::NoGradGuard no_grad;
  const AutocastScope autocast(options_.precision, options_.format.device.type(), WeightCasts::renew);
  const at::Tensor raw = logits_of(own_, shard.pictures);
  const at::Tensor wide = raw.scalar_type() == at::kDouble ? raw : raw.to(at::kFloat);
  ShardResult result;
  result.count = shard.count;
  if (shard.target.min().item<int64_t>() >= 0) {
    const at::Tensor target = shard.target.to(options_.format.device, at::kLong, /*non_blocking=*/true);
    result.unread.push_back(unread_of(at::cross_entropy_loss(wide, target, {}, at::Reduction::Sum), wide, target, {}));
    result.unread_counts.push_back(shard.count);
  }
  if (logits != nullptr) *logits = wide.cpu();
  return result;
}

}  // namespace lockstep::train
