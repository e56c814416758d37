#include "lockstep/train/update/averaging.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {
namespace {

// Elements that are averaged at a time on a CPU. A piece stays in a core's cache, for a few replicas. A chunk
// is exchanged at once. Each element is averaged separately, so neither number changes a bit.
constexpr int64_t kPiece = 16 * kBlock;
constexpr int64_t kChunk = 256 * kBlock;

std::string prefix_of(size_t replica) { return "replica-" + std::to_string(replica) + "."; }

void append(nn::NamedTensors& all, const std::string& prefix, const nn::NamedTensors& more) {
  for (const auto& [name, tensor] : more) all.emplace_back(prefix + name, tensor);
}

void append_flat(nn::NamedTensors& all, const SharedWeights& weights, const at::Tensor& flat,
                 const char* suffix) {
  const auto parts = weights.views(flat);
  for (size_t i = 0; i < parts.size(); ++i) all.emplace_back(weights.slots()[i].name + suffix, parts[i]);
}

int64_t chunk_size(const SharedWeights& masters) {
  return masters.device().is_cpu() ? kChunk : masters.element_count();
}
int64_t piece_size(const SharedWeights& masters) {
  return masters.device().is_cpu() ? kPiece : masters.element_count();
}

void copy_buffers(SharedWeights& to, const SharedWeights& from) {
  for (auto& [name, tensor] : to.buffers()) tensor.copy_(from.buffer(name));
}

}  // namespace

Averaging::Replica::Replica(nn::Instance instance, const SharedWeights& masters,
                            const std::vector<BatchNormInfo>& norms, const Optimizer& like)
    : weights(instance, masters.type(), masters.device()),
      optimizer(like.rule(), weights, like.parts()),
      network(std::move(instance), weights, norms),
      gradient(at::zeros_like(weights.flat())) {}

Averaging::Averaging(ReplicaWorkers workers, Masters masters, AveragingOptions options,
                     const std::function<nn::Instance()>& make_instance)
    : workers_(std::move(workers)),
      masters_(masters.weights),
      optimizer_(masters.optimizer),
      norms_(std::move(masters.norms)),
      options_(options),
      replicas_(static_cast<size_t>(workers_.replicas)),
      other_states_(replicas_.size()),
      samples_(at::zeros({workers_.replicas}, at::kLong)) {
  const Range here = workers_.replicas_of(workers_.comm.rank());
  for (int64_t i = here.begin; i < here.end; ++i) {
    auto& replica = replicas_[static_cast<size_t>(i)];
    replica = std::make_unique<Replica>(make_instance(), masters_, norms_, optimizer_);
    replica->updater =
        make_updater(workers_.group, replica->weights, replica->optimizer, options_.gradient_clip);
  }
  if (options_.warmup_rounds > 0) mean_gradient_ = at::zeros_like(masters_.flat());
  if (options_.outer == OuterOptimizer::none) return;
  anchor_ = masters_.flat().clone();
  outer_momentum_ = at::zeros_like(anchor_);
}

bool Averaging::is_average(int64_t round) const {
  if (round <= options_.warmup_rounds || round == options_.first_round ||
      (options_.last_round > 0 && round >= options_.last_round))
    return true;
  return options_.warmup_rounds > 0 ? (round - 1 - options_.warmup_rounds) % options_.frequency == 0
                                    : round % options_.frequency == 0;
}

int64_t Averaging::last_average_before(int64_t round) const {
  do --round;
  while (!is_average(round));
  return round;
}

void Averaging::begin(int64_t round) {
  if (!is_average(round)) return;
  const at::NoGradGuard no_grad;
  for (const auto& replica : replicas_) {
    if (replica == nullptr) continue;
    replica->weights.flat().copy_(masters_.flat());
    copy_buffers(replica->weights, masters_);
    for (size_t i = 0; options_.average_updaters && i < optimizer_.flat().size(); ++i)
      replica->optimizer.value(i).copy_(optimizer_.value(i));
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

// Each replica keeps its own batch norms' statistics until the average.
int64_t Averaging::share_gradients(Share thread, int64_t round, const std::vector<int64_t>& samples) {
  if (round > options_.warmup_rounds) return static_cast<int64_t>(samples.size());
  const at::NoGradGuard no_grad;
  workers_.group.barrier([&] { mean_ = plan_mean(samples); });
  const Averaged gradients{mean_gradient_, [](const Replica& replica) { return replica.gradient; }};
  size_t turn = 0;
  for (int64_t begin = 0; begin < masters_.element_count(); begin += chunk_size(masters_)) {
    average_chunk(thread, gradients,
                  {begin, std::min(begin + chunk_size(masters_), masters_.element_count())}, turn,
                  /*spread=*/true);
    turn = 1 - turn;
  }
  workers_.group.barrier();
  return workers_.replicas;
}

void Averaging::update(Share share, int64_t count, const device::UpdateRule& rule) {
  for (int64_t i = 0; i < count; ++i) {
    const auto& replica = replicas_[static_cast<size_t>(i)];
    if (replica != nullptr) replica->updater->step(share, {{{0, 1}, replica->gradient}}, 1, rule);
  }
}

void Averaging::note(std::span<const ShardResult> results, int64_t round) {
  if (is_average(round - 1)) samples_.zero_();
  auto samples = samples_.accessor<int64_t, 1>();
  for (size_t i = 0; i < results.size(); ++i) {
    samples[static_cast<int64_t>(i)] += results[i].count;
    if (!norms_.empty() && replicas_[i] != nullptr)
      apply_moments(replicas_[i]->weights, norms_, results[i].moments);
  }
}

// The mean of a single replica is not even rounded.
Averaging::Mean Averaging::plan_mean(std::span<const int64_t> samples) const {
  Mean mean;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] == 0) continue;
    mean.replicas.push_back(i);
    mean.weights.push_back(static_cast<double>(samples[i]));
  }
  if (mean.weights.size() == 1) mean.weights = {1};
  for (const double weight : mean.weights) mean.total += weight;
  Range own;  // terms
  for (size_t term = 0; term < mean.replicas.size(); ++term) {
    if (replicas_[mean.replicas[term]] == nullptr) continue;
    if (own.count() == 0) own.begin = static_cast<int64_t>(term);
    own.end = static_cast<int64_t>(term) + 1;
  }
  const int64_t size = std::min(chunk_size(masters_), masters_.element_count());
  for (const Range node : comm::whole_nodes(own, static_cast<int64_t>(mean.replicas.size()))) {
    for (auto& nodes : mean.own)
      nodes.push_back({node, at::empty({size}, masters_.flat().options().dtype(at::kDouble))});
  }
  return mean;
}

// In double, of terms that this rank has.
at::Tensor Averaging::sum_of(Range terms, const PartOf& part) const {
  std::vector<at::Tensor> leaves(mean_.replicas.size());
  for (auto term = static_cast<size_t>(terms.begin); term < static_cast<size_t>(terms.end); ++term)
    leaves[term] = part(*replicas_[mean_.replicas[term]]).to(at::kDouble).mul(mean_.weights[term]);
  return comm::fold(leaves, terms.begin, terms.end,
                    [](at::Tensor left, const at::Tensor& right) { return left.add_(right); });
}

// The outer optimizer begins after the warm-up, with the weights at its end.
std::vector<Averaging::Averaged> Averaging::averaged(int64_t round) const {
  const bool outer = anchor_.defined() && round > options_.warmup_rounds;
  std::vector<Averaged> all{{masters_.flat(), [](const Replica& replica) { return replica.weights.flat(); },
                             outer, outer ? at::Tensor() : anchor_}};
  for (size_t i = 0; options_.average_updaters && i < optimizer_.flat().size(); ++i) {
    all.push_back({optimizer_.value(i), [i](const Replica& replica) { return replica.optimizer.value(i); }});
  }
  return all;
}

void Averaging::average(Share thread, int64_t round) {
  const at::NoGradGuard no_grad;
  const bool spread = is_average(round);
  workers_.group.barrier([&] { mean_ = plan_mean(samples_so_far()); });
  size_t turn = 0;
  for (const Averaged& vector : averaged(round)) {
    for (int64_t begin = 0; begin < masters_.element_count(); begin += chunk_size(masters_)) {
      average_chunk(thread, vector, {begin, std::min(begin + chunk_size(masters_), masters_.element_count())},
                    turn, spread);
      turn = 1 - turn;
    }
  }
  if (thread.rank == 0) average_buffers(spread);
}

// The nodes of two chunks are used alternately. A worker that adds up a chunk has passed the barrier of the
// previous chunk, which every worker reached after it had read the chunk before that one.
void Averaging::average_chunk(Share thread, const Averaged& vector, Range chunk, size_t turn, bool spread) {
  const Range own = part_of(chunk.count(), thread.size, thread.rank);
  const auto each_piece = [&](auto&& work) {
    for (int64_t at = own.begin; at < own.end; at += piece_size(masters_))
      work(at, std::min(piece_size(masters_), own.end - at));
  };
  const auto narrowed = [](const std::vector<comm::Node>& nodes, int64_t at, int64_t count) {
    std::vector<comm::Node> parts;
    for (const comm::Node& node : nodes) parts.push_back({node.shards, node.sum.narrow(0, at, count)});
    return parts;
  };
  each_piece([&](int64_t at, int64_t count) {
    for (const comm::Node& node : mean_.own[turn])
      node.sum.narrow(0, at, count).copy_(sum_of(node.shards, [&](const Replica& replica) {
        return vector.of(replica).narrow(0, chunk.begin + at, count);
      }));
  });
  const auto terms = static_cast<int64_t>(mean_.replicas.size());
  workers_.group.barrier([&] {
    mean_.nodes.clear();  // so that the memory of the last sum can be used again
    mean_.nodes = workers_.comm.exchange_nodes(narrowed(mean_.own[turn], 0, chunk.count()), terms);
  });
  each_piece([&](int64_t at, int64_t count) {
    const int64_t begin = chunk.begin + at;
    const at::Tensor mean = comm::finish_whole(narrowed(mean_.nodes, at, count), terms).div(mean_.total);
    const at::Tensor value =
        vector.outer ? outer_step(mean.to(masters_.type()), begin, count, spread) : mean.to(masters_.type());
    vector.master.narrow(0, begin, count).copy_(value);
    if (vector.anchor.defined()) vector.anchor.narrow(0, begin, count).copy_(value);
    for (const auto& replica : replicas_) {
      if (spread && replica != nullptr) vector.of(*replica).narrow(0, begin, count).copy_(value);
    }
  });
}

// DiLoCo, algorithm 1: the mean movement of the replicas is the gradient of SGD with Nesterov momentum
// (torch.optim.SGD's arithmetic).
at::Tensor Averaging::outer_step(const at::Tensor& mean, int64_t begin, int64_t count, bool spread) {
  const at::Tensor anchor = anchor_.narrow(0, begin, count),
                   momentum = outer_momentum_.narrow(0, begin, count);
  const at::Tensor old = anchor.to(at::kDouble);
  const at::Tensor gradient = old - mean.to(at::kDouble);
  const at::Tensor velocity = momentum.to(at::kDouble).mul(options_.outer_momentum).add_(gradient);
  const at::Tensor next =
      old.sub((velocity * options_.outer_momentum).add_(gradient).mul_(options_.outer_learning_rate))
          .to(anchor.scalar_type());
  if (spread) {
    anchor.copy_(next);
    momentum.copy_(velocity);
  }
  return next;
}

void Averaging::average_buffers(bool spread) {
  if (masters_.buffers().empty()) return;
  const auto flat = [&](const Replica& replica) {
    std::vector<at::Tensor> parts;
    for (const auto& [name, tensor] : masters_.buffers())
      parts.push_back(replica.weights.buffer(name).to(at::kDouble).flatten());
    return at::cat(parts);
  };
  std::vector<comm::Node> own;
  for (const comm::Node& node : mean_.own[0]) own.push_back({node.shards, sum_of(node.shards, flat)});
  const at::Tensor mean =
      workers_.comm.reduce_tree(own, static_cast<int64_t>(mean_.replicas.size())).div(mean_.total);
  int64_t at = 0;
  for (const auto& [name, tensor] : masters_.buffers()) {
    const at::Tensor value = mean.narrow(0, at, tensor.numel()).view(tensor.sizes());
    at::Tensor(tensor).copy_(at::isFloatingType(tensor.scalar_type()) ? value : value.round());
    at += tensor.numel();
  }
  for (const auto& replica : replicas_) {
    if (spread && replica != nullptr) copy_buffers(replica->weights, masters_);
  }
}

// Of the masters, equal on all ranks.
nn::NamedTensors Averaging::common_state(int64_t round) const {
  nn::NamedTensors all;
  const bool is_mean = is_average(round);
  if (anchor_.defined()) append_flat(all, masters_, outer_momentum_, ".outer");
  if (anchor_.defined() && !is_mean) append_flat(all, masters_, anchor_, ".anchor");
  if (is_mean && options_.average_updaters) append(all, "", optimizer_.state(masters_));
  return all;
}

nn::NamedTensors Averaging::state_of(size_t replica, int64_t round) {
  const bool is_mean = is_average(round);
  nn::NamedTensors all;
  if (is_mean && options_.average_updaters) return all;
  const auto add = [&](const Optimizer& optimizer, const SharedWeights& weights) {
    append(all, "", optimizer.state(weights));
    if (!is_mean) append(all, "", weights.state());
  };
  if (replicas_[replica] != nullptr) {
    add(replicas_[replica]->optimizer, replicas_[replica]->weights);
    return all;
  }
  add(optimizer_, masters_);
  nn::NamedTensors& other = other_states_[replica];
  if (other.size() == all.size()) return other;
  for (auto& [name, tensor] : all) tensor = tensor.clone();  // as replicas begin
  return other = std::move(all);
}

nn::NamedTensors Averaging::state(int64_t round) {
  nn::NamedTensors all = common_state(round);
  for (size_t i = 0; i < replicas_.size(); ++i) append(all, prefix_of(i), state_of(i, round));
  if (!is_average(round)) all.emplace_back("samples", samples_);
  return all;
}

void Averaging::share_states(int64_t round, const std::function<int64_t(size_t replica)>& root) {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : state_of(i, round)) tensors.push_back(tensor);
    workers_.comm.broadcast(tensors, root(i));
    if (workers_.comm.rank() != 0) other_states_[i].clear();
  }
}

void Averaging::collect(int64_t round) {
  share_states(round, [&](size_t replica) {
    int64_t rank = 0;
    while (!workers_.replicas_of(rank).contains(static_cast<int64_t>(replica))) ++rank;
    return rank;
  });
}

void Averaging::hand_out(int64_t round) {
  std::vector<at::Tensor> tensors{samples_};
  for (const auto& [name, tensor] : common_state(round)) tensors.push_back(tensor);
  workers_.comm.broadcast(tensors, 0);
  share_states(round, [](size_t) { return int64_t{0}; });
  other_states_.assign(other_states_.size(), {});
}

void Averaging::check_aliases() const {
  for (const auto& replica : replicas_) {
    if (replica != nullptr) replica->network.check_aliases();
  }
}

}  // namespace lockstep::train
