#include "lockstep/train/update/averaging_update.h"

#include <chrono>
#include <utility>

#include "lockstep/base/seconds.h"

namespace lockstep::train {
namespace {

AveragingOptions averaging_options(const UpdateParts& parts) {
  const ExchangePlan& plan = parts.plan.exchange;
  return {.frequency = plan.averaging_frequency,
          .warmup_rounds = plan.averaging_warmup_steps,
          .first_round = parts.averaged_step,
          .last_round = parts.last_step,
          .average_updaters = plan.average_updaters,
          .outer = plan.outer_optimizer,
          .outer_learning_rate = plan.outer_learning_rate,
          .outer_momentum = plan.outer_momentum,
          .gradient_clip = parts.plan.update.gradient_clip};
}

ReplicaWorkers replica_workers(const UpdateParts& parts) {
  const int64_t replicas = parts.plan.step.shards;
  return {.group = parts.group,
          .comm = parts.comm,
          .replicas = replicas,
          .replicas_of = [replicas, ranks = parts.comm.size()](int64_t rank) {
            return part_of(replicas, ranks, rank);
          }};
}

}  // namespace

AveragingUpdate::AveragingUpdate(UpdateParts parts)
    : parts_(std::move(parts)),
      averaging_(replica_workers(parts_), {parts_.weights, parts_.optimizer, parts_.norms},
                 averaging_options(parts_), parts_.make_instance) {}

void AveragingUpdate::finish(Share thread, int64_t step) {
  if (averaging_.is_average(step)) return;
  averaging_.average(thread, step);
  parts_.group.barrier();
}

void AveragingUpdate::compute(const WorkerShards& work, std::span<ShardResult> results) {
  const data::Shard& shard = work.shards.front();
  results.front() = work.runner.train(averaging_.network(shard.index), shard, target_count(shard), work.step);
  results.front().hidden_state.clear();
  averaging_.keep_gradients(shard.index);
}

void AveragingUpdate::synchronize(int64_t /*shard_count*/) { parts_.agree(); }

// Of each replica that has some in this step.
std::vector<int64_t> AveragingUpdate::samples_of_replicas(const data::Batch& batch) const {
  const StepPlan& plan = parts_.plan.step;
  const int64_t each =
      plan.sampler_replicas > 0 ? batch.global_count / batch.shard_count : plan.mini_batch_size / plan.shards;
  std::vector<int64_t> samples(static_cast<size_t>(batch.shard_count), each);
  samples.back() = batch.global_count - each * (batch.shard_count - 1);
  return samples;
}

StepOutcome AveragingUpdate::update(Share thread, const data::Batch& batch, int64_t step,
                                    const device::UpdateRule& rule) {
  const int64_t stepping = averaging_.share_gradients(thread, step + 1, samples_of_replicas(batch));
  averaging_.update(thread, stepping, rule);
  return {};
}

void AveragingUpdate::take_results(const StepResults& results, int64_t step) {
  averaging_.note(results.shards, step);
}

std::optional<double> AveragingUpdate::average_if_due(Share thread, int64_t step) {
  if (!averaging_.is_average(step)) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  averaging_.average(thread, step);
  parts_.group.barrier();
  return seconds_since(start);
}

bool AveragingUpdate::is_due(int64_t step, int64_t every) const {
  return every > 0 && averaging_.is_average(step) &&
         step / every > averaging_.last_average_before(step) / every;
}

}  // namespace lockstep::train
