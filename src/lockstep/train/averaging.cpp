#include "lockstep/train/averaging.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {
namespace {

// Elements averaged at a time on a CPU: they stay in a core's cache, for a handful of replicas. All is element by element, so it changes no bit.
constexpr int64_t kAveragedAtATime = 16 * kBlock;

std::string prefix_of(size_t replica) { return "replica-" + std::to_string(replica) + "."; }

void append(nn::NamedTensors& all, const std::string& prefix, const nn::NamedTensors& more) {
  for (const auto& [name, tensor] : more) all.emplace_back(prefix + name, tensor);
}

void append_flat(nn::NamedTensors& all, const SharedWeights& weights, const at::Tensor& flat, const char* suffix) {
  const auto parts = weights.views(flat);
  for (size_t i = 0; i < parts.size(); ++i) all.emplace_back(weights.slots()[i].name + suffix, parts[i]);
}

void copy_buffers(SharedWeights& to, const SharedWeights& from) {
  for (auto& [name, tensor] : to.buffers()) tensor.copy_(from.buffer(name));
}

}  // namespace

at::Tensor weighted_mean(const std::vector<at::Tensor>& parts, const std::vector<int64_t>& samples) {
  std::vector<at::Tensor> terms;
  int64_t total = 0;
  for (size_t i = 0; i < parts.size(); ++i) total += samples[i];
  for (size_t i = 0; i < parts.size(); ++i) {
    if (samples[i] == total) return parts[i];  // alone, so not even rounded
    if (samples[i] > 0) terms.push_back(parts[i].to(at::kDouble).mul(static_cast<double>(samples[i])));
  }
  at::Tensor mean = comm::fold(terms, 0, static_cast<int64_t>(terms.size()), [](at::Tensor left, const at::Tensor& right) { return left.add_(right); });
  mean.div_(static_cast<double>(total));
  const auto type = parts.front().scalar_type();
  return at::isFloatingType(type) ? mean.to(type) : mean.round_().to(type);
}

Averaging::Replica::Replica(nn::Instance instance, const SharedWeights& masters, const std::vector<BatchNormInfo>& norms, const Optimizer& like)
    : weights(instance, masters.type(), masters.device()), optimizer(like.rule(), weights, like.parts()), network(std::move(instance), weights, norms),
      gradient(at::zeros_like(weights.flat())) {}

Averaging::Averaging(comm::ThreadGroup& group, SharedWeights& masters, const Optimizer& optimizer, std::vector<nn::Instance> instances,
                     std::vector<BatchNormInfo> norms, AveragingOptions options)
    : masters_(masters), optimizer_(optimizer), norms_(std::move(norms)), options_(options),
      samples_(at::zeros({static_cast<int64_t>(instances.size())}, at::kLong)) {
  for (nn::Instance& instance : instances) {
    replicas_.push_back(std::make_unique<Replica>(std::move(instance), masters, norms_, optimizer));
    Replica& replica = *replicas_.back();
    replica.updater = make_updater(group, replica.weights, replica.optimizer, options_.gradient_clip);
  }
  if (options_.outer == OuterOptimizer::none) return;
  anchor_ = masters.flat().clone();
  outer_momentum_ = at::zeros_like(anchor_);
}

void Averaging::begin(int64_t round) {
  if (!is_average(round)) return;
  const at::NoGradGuard no_grad;
  for (const auto& replica : replicas_) {
    replica->weights.flat().copy_(masters_.flat());
    copy_buffers(replica->weights, masters_);
    for (size_t i = 0; options_.average_updaters && i < optimizer_.flat().size(); ++i) replica->optimizer.value(i).copy_(optimizer_.value(i));
  }
  if (anchor_.defined()) anchor_.copy_(masters_.flat());
}

void Averaging::keep_gradients(int64_t replica) {
  const at::NoGradGuard no_grad;
  Replica& own = *replicas_[static_cast<size_t>(replica)];
  const auto parts = own.weights.views(own.gradient);
  const auto gradients = own.network.gradients();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (gradients[i].defined()) {
      parts[i].copy_(gradients[i]);
    } else {
      parts[i].zero_();
    }
  }
}

void Averaging::update(Share share, int64_t count, const device::UpdateRule& rule) {
  for (int64_t i = 0; i < count; ++i) {
    Replica& replica = *replicas_[static_cast<size_t>(i)];
    replica.updater->step(share, {{{0, 1}, replica.gradient}}, 1, rule);
  }
}

void Averaging::note(const std::vector<ShardResult>& results, int64_t count, int64_t round) {
  if (is_average(round - 1)) samples_.zero_();
  auto samples = samples_.accessor<int64_t, 1>();
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    samples[i] += results[at].count;
    if (!norms_.empty()) apply_moments(replicas_[at]->weights, norms_, results[at].moments);
  }
}

void Averaging::average(Share share, int64_t round) {
  const at::NoGradGuard no_grad;
  const bool spread = is_average(round);
  if (share.rank == 0) average_buffers(spread);
  const Range own = part_of(masters_.block_count(), share.size, share.rank);
  const int64_t end = std::min(own.end * kBlock, masters_.element_count());
  const int64_t most = masters_.device().is_cpu() ? kAveragedAtATime : masters_.element_count();
  for (int64_t begin = own.begin * kBlock; begin < end; begin += most) average_range(begin, std::min(most, end - begin), spread);
}

std::vector<at::Tensor> Averaging::of_replicas(const std::function<at::Tensor(const Replica&)>& part) const {
  std::vector<at::Tensor> parts;
  for (const auto& replica : replicas_) parts.push_back(part(*replica));
  return parts;
}

void Averaging::average_range(int64_t begin, int64_t count, bool spread) {
  const std::vector<int64_t> samples(samples_.const_data_ptr<int64_t>(), samples_.const_data_ptr<int64_t>() + samples_.numel());
  const auto set_all = [&](const at::Tensor& value, const at::Tensor& master, const std::vector<at::Tensor>& replicas) {
    master.narrow(0, begin, count).copy_(value);
    for (size_t i = 0; spread && i < replicas.size(); ++i) replicas[i].copy_(value);
  };
  const auto ranges = [&](auto&& flat_of) { return of_replicas([&](const Replica& replica) { return flat_of(replica).narrow(0, begin, count); }); };
  const auto weights = ranges([](const Replica& replica) { return replica.weights.flat(); });
  const at::Tensor mean = weighted_mean(weights, samples);
  set_all(anchor_.defined() ? outer_step(mean, begin, count, spread) : mean, masters_.flat(), weights);
  for (size_t i = 0; options_.average_updaters && i < optimizer_.flat().size(); ++i) {
    const auto values = ranges([&](const Replica& replica) { return replica.optimizer.value(i); });
    set_all(weighted_mean(values, samples), optimizer_.value(i), values);
  }
}

// DiLoCo, algorithm 1: what the replicas moved on average is the gradient of an SGD with Nesterov's momentum (torch.optim.SGD's arithmetic).
at::Tensor Averaging::outer_step(const at::Tensor& mean, int64_t begin, int64_t count, bool spread) {
  const at::Tensor anchor = anchor_.narrow(0, begin, count), momentum = outer_momentum_.narrow(0, begin, count);
  const at::Tensor old = anchor.to(at::kDouble);
  const at::Tensor gradient = old - mean.to(at::kDouble);
  const at::Tensor velocity = momentum.to(at::kDouble).mul(options_.outer_momentum).add_(gradient);
  const at::Tensor next = old.sub((velocity * options_.outer_momentum).add_(gradient).mul_(options_.outer_learning_rate)).to(anchor.scalar_type());
  if (spread) {
    anchor.copy_(next);
    momentum.copy_(velocity);
  }
  return next;
}

void Averaging::average_buffers(bool spread) {
  const std::vector<int64_t> samples(samples_.const_data_ptr<int64_t>(), samples_.const_data_ptr<int64_t>() + samples_.numel());
  for (const auto& [name, tensor] : masters_.buffers()) {
    const at::Tensor master = tensor;
    master.copy_(weighted_mean(of_replicas([&, &name = name](const Replica& replica) { return replica.weights.buffer(name); }), samples));
  }
  for (size_t i = 0; spread && i < replicas_.size(); ++i) copy_buffers(replicas_[i]->weights, masters_);
}

nn::NamedTensors Averaging::state(int64_t round) const {
  nn::NamedTensors all;
  const bool is_mean = is_average(round);
  if (anchor_.defined()) append_flat(all, masters_, outer_momentum_, ".outer");
  if (anchor_.defined() && !is_mean) append_flat(all, masters_, anchor_, ".anchor");
  if (is_mean && options_.average_updaters) append(all, "", optimizer_.state(masters_));
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = *replicas_[i];
    if (!is_mean || !options_.average_updaters) append(all, prefix_of(i), replica.optimizer.state(replica.weights));
    if (!is_mean) append(all, prefix_of(i), replica.weights.state());
  }
  if (!is_mean) all.emplace_back("samples", samples_);
  return all;
}

void Averaging::check_aliases() const {
  for (const auto& replica : replicas_) replica->network.check_aliases();
}

}  // namespace lockstep::train
