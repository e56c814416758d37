#include "lockstep/train/update/tree_update.h"

#include <algorithm>
#include <utility>

#include "lockstep/device/gpu.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/norm_groups.h"

namespace lockstep::train {
namespace {

// What is sent beside backward goes there.
std::unique_ptr<device::SideStream> side_stream(const Plan& plan) {
  if (plan.machine.device == "cpu" || !plan.exchange.overlap) return std::make_unique<device::SideStream>();
  return device::gpu_library().make_side_stream(plan.machine.gpu);
}

ExchangeOptions exchange_options(const UpdateParts& parts) {
  const Plan& plan = parts.plan;
  return {.compressor = make_gradient_compressor(plan.exchange.kind, parts.comm, parts.weights,
                                                 plan.exchange.powersgd_rank),
          .gradient_clip = plan.update.gradient_clip,
          .not_finite = plan.step.precision == Precision::fp16_mixed ? NotFinite::skip : NotFinite::update,
          .in_place = !parts.prototype.layers.empty(),
          .overlap = plan.exchange.overlap && !groups_span_ranks(plan, parts.comm.size()),
          .stream = side_stream(plan),
          .agree = parts.agree};
}

// Of the workers of this rank. With hidden state the mini-batch is always full.
Range slots_of_rank(const Plan& plan, Share rank) {
  const int64_t samples = plan.step.mini_batch_size, shards = used_shards(plan.step.shards, samples);
  const Range own = plan.machine.deal(rank.size).of_rank(shards, rank.rank);
  if (own.count() == 0) return {};
  return {part_of(samples, shards, own.begin).begin, part_of(samples, shards, own.end - 1).end};
}

void broadcast_from_first(comm::Communicator& comm, const nn::NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  comm.broadcast(tensors, 0);
}

}  // namespace

TreeUpdate::TreeUpdate(UpdateParts parts)
    : parts_(std::move(parts)),
      exchange_(parts_.group, parts_.comm, parts_.weights, parts_.optimizer, exchange_options(parts_)),
      hidden_states_(make_hidden_states(parts_.plan, parts_.prototype, parts_.weights.flat())) {}

PartNames TreeUpdate::part_names() const { return {.part = "shard", .may_be_more = true}; }

void TreeUpdate::begin(int64_t /*step*/) {}
void TreeUpdate::end_after(int64_t /*step*/) {}
void TreeUpdate::finish(Share /*thread*/, int64_t /*step*/) {}

int64_t TreeUpdate::most_together(ShardRunner& runner, int64_t samples) const {
  return runner.most_together(samples);
}

void TreeUpdate::begin_step(Share thread, const data::Batch& batch) {
  exchange_.begin(thread, static_cast<int64_t>(batch.shards.size()), batch.shard_count);
}

// Where backward may write the node's gradients; null where they go to the exchange otherwise.
std::unique_ptr<kernels::GradientTarget> TreeUpdate::begin_node(const WorkerShards& work) {
  const bool may_be_last = exchange_.may_be_last(work.node());
  if (work.interleaved) return nullptr;
  if (may_be_last) {
    exchange_.begin_early(work.thread, work.node());
    work.runner.hand_over_early([this, thread = work.thread](size_t parameter, const at::Tensor& gradient) {
      exchange_.take_early(thread, parameter, gradient);
    });
    return nullptr;
  }
  const bool in_one_pass = work.runner.pieces() == 1 && !work.runner.records();
  return in_one_pass ? exchange_.begin_in_place(work.thread, work.node()) : nullptr;
}

void TreeUpdate::compute(const WorkerShards& work, std::span<ShardResult> results) {
  const data::Shard& first = work.shards.front();
  const Range node = work.node();
  const std::unique_ptr<kernels::GradientTarget> target = begin_node(work);
  if (!work.groups.shards.empty()) work.runner.normalize_over(work.groups);
  if (node.count() > 1) {
    const data::Shard joined = data::joined(work.shards);
    std::ranges::move(work.runner.train_together({joined, node.count()}, work.batch.target_count, work.step),
                      results.begin());
  } else {
    results.front() =
        work.runner.train(first, work.batch.target_count, work.step, hidden_states_.rows(first));
    hidden_states_.put(first, std::exchange(results.front().hidden_state, {}));
  }
  exchange_.take(work.thread, node, work.runner.gradients(), target.get());
}

void TreeUpdate::synchronize(int64_t shard_count) { exchange_.synchronize(shard_count); }

StepOutcome TreeUpdate::update(Share thread, const data::Batch& batch, int64_t /*step*/,
                               const device::UpdateRule& rule) {
  exchange_.step(thread, batch.shard_count, rule);
  return {.skipped = thread.rank == 0 && exchange_.skipped(), .hidden_exchange = exchange_.hidden_seconds()};
}

void TreeUpdate::take_results(const StepResults& results, int64_t /*step*/) {
  if (!parts_.norms.empty()) apply_moments(parts_.weights, parts_.norms, results.sum.moments);
  hidden_states_.commit();
}

std::optional<double> TreeUpdate::average_if_due(Share /*thread*/, int64_t /*step*/) { return std::nullopt; }

bool TreeUpdate::is_due(int64_t step, int64_t every) const { return every > 0 && step % every == 0; }

nn::NamedTensors TreeUpdate::state(int64_t /*step*/) {
  nn::NamedTensors state = parts_.optimizer.state(parts_.weights);
  for (auto& hidden_state : hidden_states_.state()) state.push_back(std::move(hidden_state));
  return state;
}

void TreeUpdate::collect(int64_t /*step*/) {
  hidden_states_.collect(parts_.comm, slots_of_rank(parts_.plan, parts_.comm.share()));
}

void TreeUpdate::hand_out(int64_t /*step*/) {
  broadcast_from_first(parts_.comm, hidden_states_.state());
  broadcast_from_first(parts_.comm, parts_.optimizer.state(parts_.weights));
}

}  // namespace lockstep::train
