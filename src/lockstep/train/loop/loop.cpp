// The training loop. Every worker of every rank walks it; workers differ only in the shards and blocks that
// they own. A decision to end is made before a barrier. The ranks agree on it in the barrier, and all workers
// read it after the barrier, so that no worker leaves alone: the step under way is dropped, and the run
// stands at the last complete step. If memory runs out, the ranks agree in the same way, and the step is
// computed again. The first worker of each rank does what is done once in a process, with the same numbers on
// all ranks.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <sys/syscall.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/memory.h"
#include "lockstep/train/loop/group_passes.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/loop/restart.h"
#include "lockstep/train/loop/training.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/learning.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;

nn::Instance another_instance(const TrainingSetup& setup, const nn::Instance& prototype) {
  nn::Instance instance = trainable_instance(setup.network, setup.plan.network, setup.plan.step.seed);
  if (instance.module == prototype.module)
    throw Error(ErrorCode::invalid_option, "the network's function gave the same module twice",
                "make a new module in each call; each worker needs its own");
  return instance;
}

int64_t samples_of(const ShardUnit& unit) {
  int64_t samples = 0;
  for (const data::Shard& shard : unit.shards) samples += shard.count;
  return samples;
}

}  // namespace

Training::Training(TrainingSetup setup, nn::Instance prototype)
    : setup_(std::move(setup)),
      prototype_(std::move(prototype)),
      weights_(prototype_, number_type(setup_.plan.step.precision),
               open_device(setup_.plan.machine.device, setup_.plan.machine.gpu)),
      norms_(with_start(probe_batch_norms(prototype_, setup_.plan.network.input),
                        setup_.plan.step.batch_norm_start)),
      optimizer_(rule_of(setup_.plan.update), weights_,
                 rate_parts(weights_, learning_rate_factors(learnables_of(prototype_), setup_.plan.network,
                                                            setup_.plan.update.head_steps))),
      schedule_(schedule_of(setup_.plan, setup_.state)),
      group_(setup_.plan.machine.deal(setup_.comm.size()).workers_of_rank()),
      state_(setup_.state),
      end_(setup_),
      reports_(setup_, state_, schedule_, end_),
      kept_inputs_(setup_, group_, reports_),
      scoring_(setup_, group_, kept_inputs_, {prototype_, weights_}),
      update_(make_step_update(
          {.plan = setup_.plan,
           .group = group_,
           .comm = setup_.comm,
           .weights = weights_,
           .optimizer = optimizer_,
           .norms = norms_,
           .prototype = prototype_,
           .make_instance = [this] { return another_instance(setup_, prototype_); },
           .agree = [this] { return agree(); },
           .averaged_step = setup_.state.averaged_step,
           .last_step = setup_.more_passes ? setup_.plan.length.max_steps : setup_.plan.length.total_steps})),
      shard_queue_(group_.size()),
      step_groups_({.group_samples = setup_.plan.step.batch_norm_group,
                    .rank = setup_.comm.rank(),
                    .deal = setup_.plan.machine.deal(setup_.comm.size()),
                    .spans_ranks = groups_span_ranks(setup_.plan, setup_.comm.size())},
                   setup_.comm),
      step_shards_(setup_),
      rank_balance_(setup_.plan, setup_.comm.share(), group_.size()),
      loss_watch_(setup_.plan, schedule_.learning_rate),
      errors_(setup_.plan, state_, update_->part_names()),
      saver_(setup_, {weights_, *update_, state_, end_, reports_}),
      thread_ids_(static_cast<size_t>(group_.size())) {}

void Training::share_start() {
  read_json(broadcast_json(setup_.comm, lockstep::to_json(state_)), state_, "the state of rank 0");
  std::vector<at::Tensor> weights;
  for (const auto& [name, tensor] : weights_.state()) weights.push_back(tensor);
  setup_.comm.broadcast(weights, 0);
  update_->hand_out(state_.step);
}

EndReason Training::run() {
  end_.start_clock(state_.seconds);
  state_.pieces = std::max(state_.pieces, setup_.plan.step.accumulate);
  if (state_.pieces > 1) step_groups_.normalize_pieces();
  update_->begin(state_.step);
  kept_inputs_.open(weights_, prototype_);
  device::give_freed_memory_of_thread_back();  // the workers do not get it
  try {
    group_.run([&](Share thread) { work(thread); });
  } catch (...) {
    // At once, because an exchange may still be waiting for the other ranks.
    setup_.comm.abort(device::error_of(std::current_exception()));
    throw;
  }
  reports_.say_warnings();
  return end_.reason();
}

void Training::work(Share thread) {
  at::set_num_threads(1);
  thread_ids_[static_cast<size_t>(thread.rank)] = ::syscall(SYS_gettid);
  Worker worker = make_worker(thread);
  group_.barrier();
  if (worker.is_first()) report_start();
  kept_inputs_.fill(worker);
  try {
    walk(worker);
  } catch (...) {
    step_groups_.fail();
    throw;
  }
}

void Training::walk(Worker& worker) {
  // A run that was stopped inside a validation makes the validation again, and what follows from it.
  if (!tests_rates() && validation_is_due(worker.step) && state_.validated_step < worker.step) {
    validate(worker);
    if (worker.is_first()) saver_.save_if_due();
  }
  // A run that was stopped or killed between its last validation and its end has ended there.
  if (worker.is_first() && patience_is_over()) end_.end_with(EndReason::patience);
  while (!end_.is_last(worker.step)) {
    if (worker.is_first() && pause_is_due(worker.step)) end_.pause();
    if (!train_step(worker) || state_.starts_again) break;
    if (tests_rates()) continue;
    if (validation_is_due(worker.step)) validate(worker);
    if (worker.is_first()) saver_.save_if_due();
    if (!new_loads().empty()) break;
  }
  group_.barrier([&] {
    agree();
    update_->collect(state_.step);
  });
  if (end_.reason() == EndReason::stopped || state_.starts_again || deals_again()) return;
  update_->finish(worker.thread, worker.step);
  if (ends_unvalidated(worker.step)) validate(worker, ValidationUse::shown);
  if (setup_.test != nullptr) test(worker);
}

// One optimizer step. False if the run has ended; the step is then not made.
bool Training::train_step(Worker& worker) {
  const auto start = Clock::now();
  worker.times = {};
  const LossScale scale = state_.scale();
  const std::optional<data::Batch> batch = next_batch(worker);
  worker.times.queue = seconds_since(start);
  do {
    if (batch) compute_shards(worker, *batch);
    rank_balance_.note_worker(worker.thread.rank, seconds_since(start) - worker.times.waited);
    if (end_.gives_up_step()) step_groups_.give_up(worker.thread.rank);
    group_.barrier([&] { agree_and_synchronize(worker.step, batch); });
  } while (computes_again(worker));
  if (end_.ended()) return false;

  const auto agreed = Clock::now();
  const StepOutcome outcome = update(worker, *batch, scale);
  Score score;
  if (worker.is_first()) {
    score = fold_results(batch->shard_count);
    if (setup_.timing && setup_.plan.machine.device == "cpu")  // on a GPU a shard is only queued
      worker.times.of_workers = rank_balance_.seconds_of_workers();
    if (scales_loss()) state_.set_scale(next(scale, outcome.skipped, worker.step + 1));
    if (is_mixed(setup_.plan.step.precision)) AutocastScope::forget_casts();
    state_.step = worker.step + 1;
    if (tests_rates()) {
      note_tested(score);
    } else {
      watch_loss(score);
      balance_ranks(batch->global_count, seconds_since(start));
    }
  }
  group_.barrier();

  ++worker.step;
  const std::optional<double> average_seconds = update_->average_if_due(worker.thread, worker.step);
  if (average_seconds && worker.is_first()) {
    state_.averaged_step = worker.step;
    reports_.average(*average_seconds, score);
  }
  const auto updated = Clock::now();
  StepTimes& times = worker.times;
  times.hidden_exchange = outcome.hidden_exchange;
  times.exchange = seconds_between(start, agreed) - times.queue - times.forward - times.backward;
  times.update = seconds_between(agreed, updated);
  times.whole = seconds_between(start, updated);
  if (worker.is_first()) report_step(worker, score, scale);
  return true;
}

std::optional<data::Batch> Training::next_batch(Worker& worker) {
  auto batch = worker.next_batch();
  if (batch) {
    kept_inputs_.add_images(*setup_.train, batch->shards);
  } else {
    if (!setup_.stop.stop_requested())
      throw Error(ErrorCode::internal, "the mini-batch queue ended before the run");
    end_.end_with(EndReason::stopped);
  }
  return batch;
}

// The worker's parts of groups that span workers, its own shards, then shards that others have not begun,
// until the run ends or memory runs out.
void Training::compute_shards(Worker& worker, const data::Batch& batch) {
  if (scales_loss()) worker.runner.set_loss_scale(state_.loss_scale);
  StepWork work = step_groups_.divide(batch, worker.thread.rank);
  shard_queue_.offer(worker.thread.rank, work.free);
  update_->begin_step(worker.thread, batch);
  for (ShardUnit& unit : work.placed) {
    if (!compute_or_give_up(worker, unit, work)) return;
  }
  if (step_groups_.any() && !batch.shards.empty()) worker.runner.probe(batch.shards.front());
  while (true) {
    const int64_t most = batch.shards.empty() ? 1 : most_together(worker, batch.shards.front().count);
    ShardUnit unit{shard_queue_.take(worker.thread.rank, most, {batch.shard_count, work.groups})};
    if (unit.shards.empty()) break;
    const auto start = Clock::now();
    const double waited = worker.times.waited;
    if (!compute_or_give_up(worker, unit, work)) break;
    worker.pass_size.note(samples_of(unit), seconds_since(start) - (worker.times.waited - waited));
  }
  worker.pass_size.end_step();
}

// How many shards of this size a pass takes.
int64_t Training::most_together(Worker& worker, int64_t samples) const {
  const int64_t most = update_->most_together(worker.runner, samples);
  if (worker.runner.records()) return most;
  return std::min(most, std::max<int64_t>(1, worker.pass_size.samples() / samples));
}

// False if the step is given up. The other workers then do not wait for this one's part of a group.
bool Training::compute_or_give_up(Worker& worker, ShardUnit& unit, const StepWork& work) {
  if (setup_.stop.stop_requested()) end_.end_with(EndReason::stopped);
  if (end_.gives_up_step()) return false;
  try {
    compute(worker, unit, work);
    return true;
  } catch (...) {
    if (step_groups_.given_up()) return false;
    const Error error = device::error_of(std::current_exception());
    if (error.code() != ErrorCode::out_of_memory) errors_.rethrow_from(unit.shards);
    if (!errors_.may_split(unit.shards.front().count))
      throw errors_.out_of_memory(error, unit.shards, work.batch.shard_count);
    end_.run_out_of_memory();
    return false;
  }
}

// A shard, a node of the tree, or a group of batch norms.
void Training::compute(Worker& worker, ShardUnit& unit, const StepWork& work) {
  for (data::Shard& shard : unit.shards) kept_inputs_.add_features(*setup_.train, shard, worker.runner);
  const GroupPasses passes{*update_, step_groups_, worker.thread, worker.step,
                           scales_loss() ? state_.loss_scale : 1};
  const Range node{unit.shards.front().index, unit.shards.back().index + 1};
  const std::span<ShardResult> results = step_shards_.results_of(node);
  worker.times.waited += passes.compute({worker.runner, worker.pass_threads}, unit, work, results);
  step_shards_.note_worker(node, worker.all.rank);
  for (const ShardResult& result : results) {
    worker.times.forward += result.forward_seconds;
    worker.times.backward += result.backward_seconds;
  }
}

void Training::agree_and_synchronize(int64_t step, const std::optional<data::Batch>& batch) {
  if (setup_.plan.data.streamed && batch && batch->ends_epoch) {
    end_.end_after(step + 1);
    if (!setup_.more_passes) update_->end_after(step + 1);
  }
  step_groups_.end_step();
  update_->synchronize(batch ? batch->shard_count : 0);
}

// Whether the step is dropped. The update calls it once in each step.
bool Training::agree() {
  const NextMove move = end_.agree();
  if (move == NextMove::compute_again) {
    state_.pieces *= 2;
    step_groups_.normalize_pieces();
    saver_.note_pieces();
    shard_queue_.withdraw();
    AutocastScope::forget_casts();
    device::give_freed_memory_back();  // for oneDNN, which does not use the allocator's memory
  }
  if (move == NextMove::update_and_save) saver_.note_request();
  return move != NextMove::update && move != NextMove::update_and_save;
}

bool Training::computes_again(Worker& worker) {
  if (!end_.computes_again()) return false;
  worker.runner.set_pieces(state_.pieces);
  if (worker.is_first()) reports_.smaller_pieces();
  return true;
}

StepOutcome Training::update(Worker& worker, const data::Batch& batch, const LossScale& scale) {
  device::UpdateRule rule = optimizer_.rule_at(worker.step - scale.skipped, schedule_.at(worker.step));
  if (scales_loss()) rule.gradient_scale = 1 / scale.factor;
  return update_->update(worker.thread, batch, worker.step, rule);
}

// The mini-batch's loss and accuracy, and the running statistics. All are folded in the tree, so they do not
// depend on who computed the shards.
Score Training::fold_results(int64_t shard_count) {
  const auto results = step_shards_.reduce(shard_count, state_.pieces, norms_);
  const ShardResult sum = step_shards_.sum(norms_);
  if (!starts_again_after(score_of(sum).loss)) errors_.check_losses(results);
  update_->take_results({results, sum}, state_.step + 1);
  return score_of(sum);
}

// After the last step nothing moves.
void Training::balance_ranks(int64_t samples, double seconds) {
  if (!setup_.moves_shards || end_.is_last(state_.step)) return;
  rank_balance_.end_step(setup_.comm, samples, seconds);
  if (!new_loads().empty()) reports_.message(rank_balance_.text(), "info");
}

void Training::report_start() {
  reports_.say(record::Shards{.owners = step_shards_.owners(),
                              .threads = thread_ids_,
                              .buckets = static_cast<int64_t>(update_->bucket_count())});
}

void Training::report_step(const Worker& worker, const Score& score, const LossScale& scale) {
  if (state_.skipped_steps > scale.skipped) reports_.skipped_step(scale.factor);
  kept_inputs_.report_cache_failure();
  reports_.say_warnings();
  if (tests_rates()) return reports_.tested_step();
  for (const std::string& reason : module_trials_.new_reasons()) reports_.message(reason, "info");
  reports_.step(worker.times, score, step_shards_.computed_by());
}

Worker Training::make_worker(Share thread) {
  nn::Instance instance = prototype_;
  if (thread.rank != 0) {
    instance = another_instance(setup_, prototype_);
    weights_.alias(instance);
  }
  return {setup_,
          state_,
          thread,
          {std::move(instance), weights_, norms_, runner_options(), [this] { return make_runner(); },
           kept_inputs_.batch_images()}};
}

std::unique_ptr<ShardRunner> Training::make_runner() {
  nn::Instance instance = another_instance(setup_, prototype_);
  weights_.alias(instance);
  ShardRunnerOptions options = runner_options();
  options.module_together = false;  // the worker's own runner makes the trial
  return std::make_unique<ShardRunner>(std::move(instance), weights_, norms_, std::move(options));
}

ShardRunnerOptions Training::runner_options() {
  ShardRunnerOptions options = shard_runner_options(setup_.plan);
  options.trials = &module_trials_;
  if (!setup_.plan.machine.cuda_graphs) return options;
  options.recording = {
      .make_graph = [gpu = setup_.plan.machine.gpu] { return device::gpu_library().make_step_graph(gpu); },
      .side_by_side = setup_.plan.machine.side_by_side,
      .free_bytes = [gpu = setup_.plan.machine.gpu] { return device::gpu_library().memory(gpu).free; },
      .warn = [this](const std::string& text) { reports_.warn_after_step(text); }};
  return options;
}

bool Training::pause_is_due(int64_t step) const {
  const int64_t last = setup_.plan.length.pause_after_step;
  return last > 0 && step >= last && !tests_rates();
}

}  // namespace lockstep::train
