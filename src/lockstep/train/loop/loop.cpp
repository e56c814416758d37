// The training loop. Every worker of every rank walks it; what differs is only which shards and blocks it
// owns. A decision to end is made before a barrier, agreed by the ranks in it, and read by all after it, so
// that no worker leaves alone: the step under way is then dropped, and the run stands at the last complete
// one. Out of memory goes the same way, and the step is then computed anew. A rank's first worker does what
// is done once a process, with the same numbers on all ranks.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sys/syscall.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/gpu.h"
#include "lockstep/train/cache/feature_files.h"
#include "lockstep/train/step/learning.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/loop/training.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;

at::Device device_of(const Plan& plan) { return open_device(plan.machine.device, plan.machine.gpu); }

data::QueueOptions queue_options(const TrainingSetup& setup, int64_t step, bool resident) {
  const Plan& plan = setup.plan;
  return {.mini_batch_size = plan.step.mini_batch_size,
          .shards = plan.step.shards,
          .shard_size = plan.exchange.averages() ? plan.step.mini_batch_size / plan.step.shards : 0,
          .ranks = setup.comm.size(),
          .order = sample_order(plan.step),
          .augment = plan.data.augment,
          .cut_out = queue_cut(plan.data),
          .start = {plan.length.first_epoch + (step - plan.length.first_step) / plan.length.steps_per_epoch,
                    (step - plan.length.first_step) % plan.length.steps_per_epoch},
          .epochs = plan.length.first_epoch + plan.length.max_epochs,
          .read_ahead = plan.machine.read_ahead,
          .least_time_steps = plan.data.least_time_steps,
          .pinned = device_of(plan).is_cuda(),
          .images_wanted = !plan.network.keep_features && !resident};
}

nn::Instance make_instance(const TrainingSetup& setup) {
  return trainable_instance(setup.network, setup.plan.network, setup.plan.step.seed);
}

AveragingOptions averaging_options(const TrainingSetup& setup) {
  const ExchangePlan& plan = setup.plan.exchange;
  const LengthPlan& length = setup.plan.length;
  return {.frequency = plan.averaging_frequency,
          .warmup_rounds = plan.averaging_warmup_steps,
          .first_round = setup.state.averaged_step,
          .last_round = setup.more_passes ? length.max_steps : length.total_steps,
          .average_updaters = plan.average_updaters,
          .outer = plan.outer_optimizer,
          .outer_learning_rate = plan.outer_learning_rate,
          .outer_momentum = plan.outer_momentum,
          .gradient_clip = setup.plan.update.gradient_clip};
}

Schedule schedule_of(const Plan& plan) {
  const UpdatePlan& update = plan.update;
  const LengthPlan& length = plan.length;
  return {.kind = update.lr_schedule,
          .learning_rate = update.learning_rate,
          .drop_factor = update.lr_drop_factor,
          .drop_period = update.lr_drop_period,
          .steps_per_epoch = length.steps_per_epoch,
          .total_steps = length.schedule_steps,
          .first_step = length.first_step,
          .first_epoch = length.first_epoch,
          .warmup_steps = update.warmup_steps};
}

// No hidden state is kept unless sequences come in pieces.
HiddenStates hidden_states(const Plan& plan, const nn::Instance& instance, const SharedWeights& weights) {
  return plan.step.tbptt_length > 0
             ? HiddenStates(instance.hidden_state, plan.step.mini_batch_size, weights.flat())
             : HiddenStates();
}

std::vector<int64_t> owners_of(const TrainingSetup& setup) {
  const int64_t ranks = setup.comm.size(), threads = setup.plan.machine.workers / ranks,
                shards = setup.plan.step.shards;
  std::vector<int64_t> owners;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t rank = owner_of(shards, ranks, shard);
    const Range own = part_of(shards, ranks, rank);
    owners.push_back(rank * threads + owner_of(own.count(), threads, shard - own.begin));
  }
  return owners;
}

// In averaging mode, of each replica that has some.
std::vector<int64_t> samples_of_replicas(const data::Batch& batch, const Plan& plan) {
  const int64_t each = plan.step.sampler_replicas > 0 ? batch.global_count / batch.shard_count
                                                      : plan.step.mini_batch_size / plan.step.shards;
  std::vector<int64_t> samples(static_cast<size_t>(batch.shard_count), each);
  samples.back() = batch.global_count - each * (batch.shard_count - 1);
  return samples;
}

// The slots that the workers of this rank have; there the mini-batch is always full.
Range slots_of_rank(const TrainingSetup& setup) {
  const int64_t slots = setup.plan.step.mini_batch_size, shards = used_shards(setup.plan.step.shards, slots);
  const Range own = part_of(shards, setup.comm.size(), setup.comm.rank());
  if (own.count() == 0) return {};
  return {part_of(slots, shards, own.begin).begin, part_of(slots, shards, own.end - 1).end};
}

bool patience_is_over(const Plan& plan, const RunState& state) {
  return plan.length.patience > 0 && state.validations_since_best >= plan.length.patience;
}

int64_t first_slot(const data::Batch& batch, const data::Shard& shard) {
  return part_of(batch.global_count, batch.shard_count, shard.index).begin;
}

}  // namespace

// What one worker has for itself.
struct Training::Worker {
  Share thread;  // of the workers of its process
  Share all;     // of the workers of all ranks
  ShardRunner runner;
  std::unique_ptr<data::MiniBatchQueue> queue;  // null where mini-batches are streamed
  int64_t step;                                 // steps done, equal on all workers
  StepTimes times;                              // of this step

  bool is_first() const { return thread.rank == 0; }

  Worker(Training& training, Share own_thread, Share of_all, nn::Instance instance)
      : thread(own_thread),
        all(of_all),
        runner(std::move(instance), training.weights_, training.norms_, training.options_of_runners()),
        step(training.state_.step) {
    runner.set_pieces(training.state_.pieces);
    const TrainingSetup& setup = training.setup_;
    if (!setup.plan.data.streamed)
      queue = std::make_unique<data::MiniBatchQueue>(setup.train, all,
                                                     queue_options(setup, step, !training.resident_.empty()));
  }

  std::optional<data::Batch> next_batch(const TrainingSetup& setup) {
    return queue
               ? queue->next(setup.stop)
               : setup.stream->next(step - setup.plan.length.first_step, all, setup.comm.size(), setup.stop);
  }
};

Training::Training(TrainingSetup setup, nn::Instance prototype)
    : setup_(std::move(setup)),
      prototype_(std::move(prototype)),
      weights_(prototype_, number_type(setup_.plan.step.precision), device_of(setup_.plan)),
      norms_(probe_batch_norms(prototype_, setup_.plan.network.input)),
      optimizer_(rule_of(setup_.plan.update), weights_,
                 rate_parts(weights_, learning_rate_factors(learnables_of(prototype_), setup_.plan.network))),
      schedule_(schedule_of(setup_.plan)),
      group_(setup_.plan.machine.workers / setup_.comm.size()),
      exchange_(group_, setup_.comm, weights_, optimizer_,
                {.way = make_gradient_compressor(setup_.plan.exchange.kind, setup_.comm, weights_,
                                                 setup_.plan.exchange.powersgd_rank),
                 .gradient_clip = setup_.plan.update.gradient_clip,
                 .not_finite = scales_loss() ? NotFinite::skip : NotFinite::update,
                 .in_place = !prototype_.layers.empty(),
                 .overlap = setup_.plan.exchange.overlap,
                 .agree = [this] { return agree(); }}),
      state_(setup_.state),
      last_step_(setup_.plan.length.total_steps > 0 ? setup_.plan.length.total_steps
                                                    : std::numeric_limits<int64_t>::max()),
      hidden_states_(hidden_states(setup_.plan, prototype_, weights_)),
      shard_queue_(group_.size(), exchange_.overlaps() ? Takeover::never : Takeover::allowed),
      shard_results_(static_cast<size_t>(setup_.plan.step.shards)),
      owners_(owners_of(setup_)),
      shard_workers_(owners_),
      thread_ids_(static_cast<size_t>(group_.size())) {
  if (setup_.plan.network.keep_features) {
    features_.emplace_back(setup_.train, setup_.train_features);
    if (setup_.validation != nullptr) features_.emplace_back(setup_.validation, setup_.validation_features);
  }
  if (!setup_.plan.exchange.averages()) return;
  const ReplicaWorkers workers{group_, setup_.comm, setup_.plan.step.shards, [this](int64_t rank) {
                                 return part_of(setup_.plan.step.shards, setup_.comm.size(), rank);
                               }};
  averaging_ =
      std::make_unique<Averaging>(workers, Averaging::Masters{weights_, optimizer_, norms_},
                                  averaging_options(setup_), [this] { return make_instance(setup_); });
}

ShardRunnerOptions Training::options_of_runners() {
  ShardRunnerOptions options = shard_runner_options(setup_.plan);
  if (!setup_.plan.machine.cuda_graphs) return options;
  options.recording = {
      .make_graph = [gpu = setup_.plan.machine.gpu] { return device::gpu_library().make_step_graph(gpu); },
      .warn =
          [this](const std::string& text) {
            say("message", {{"text", text}, {"level", "warning"}});
          }};
  return options;
}

void Training::share_start() {
  read_json(broadcast_json(setup_.comm, lockstep::to_json(state_)), state_, "the state of rank 0");
  const auto share = [&](const nn::NamedTensors& named) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : named) tensors.push_back(tensor);
    setup_.comm.broadcast(tensors, 0);
  };
  share(weights_.state());
  share(hidden_states_.state());
  averaging_ ? averaging_->hand_out(state_.step) : share(optimizer_.state(weights_));
}

EndReason Training::run() {
  started_ = now_seconds() - state_.seconds;
  state_.pieces = std::max(state_.pieces, setup_.plan.step.accumulate);
  if (averaging_) averaging_->begin(state_.step);
  check_feature_files();
  take_resident_memory();
  const auto work = [&](Share thread) {
    at::set_num_threads(1);
    thread_ids_[static_cast<size_t>(thread.rank)] = ::syscall(SYS_gettid);
    nn::Instance instance = prototype_;
    if (thread.rank != 0) {
      instance = make_instance(setup_);
      weights_.alias(instance);
    }
    const Share rank = setup_.comm.share();
    Worker worker(*this, thread, {rank.rank * thread.size + thread.rank, rank.size * thread.size},
                  std::move(instance));
    group_.barrier();
    if (worker.is_first()) report_start();
    compute_features(worker);
    load_resident(worker);
    walk(worker);
  };
  try {
    group_.run(work);
  } catch (...) {
    setup_.comm.abort(
        device::error_of(std::current_exception()));  // now: an exchange may still be waiting for the others
    throw;
  }
  return reason_;
}

// A checkpoint may have other frozen weights than the file of --weights has by now.
void Training::check_feature_files() {
  const bool any =
      std::ranges::any_of(features_, [](const Features& features) { return features.file() != nullptr; });
  const uint64_t frozen = any ? hash_of_frozen(weights_.state(), prototype_,
                                               static_cast<size_t>(setup_.plan.network.frozen_layers))
                              : 0;
  for (Features& features : features_) features.check_file(frozen);
}

// After a stop some are missing, and nothing reads them: the first mini-batch is not given.
void Training::compute_features(Worker& worker) {
  if (features_.empty()) return;
  const auto start = Clock::now();
  with_context([] { return std::string("while the frozen layers' output was computed"); },
               [&] {
                 int64_t before = 0;
                 auto last = start;
                 for (Features& features : features_) {
                   const auto tell = [&](double done) {
                     if (!worker.is_first() || seconds_since(last) < 1) return;
                     last = Clock::now();
                     report_features_so_far(
                         before + static_cast<int64_t>(done * static_cast<double>(features.images().size())),
                         seconds_since(start));
                   };
                   features.compute(worker.thread, setup_.comm.share(), worker.runner, setup_.stop, tell);
                   before += features.images().size();
                 }
               });
  group_.barrier();
  if (worker.is_first()) report_features(seconds_since(start));
}

const Features* Training::features_of(const data::ImageSet& images) const {
  for (const Features& features : features_) {
    if (&features.images() == &images) return &features;
  }
  return nullptr;
}

// Where it is not there after all, the run goes on without.
void Training::take_resident_memory() {
  if (!setup_.plan.machine.resident) return;
  std::vector<std::shared_ptr<const data::ImageSet>> sets{setup_.train};
  if (setup_.validation != nullptr) sets.push_back(setup_.validation);
  resident_ = take_resident(sets, device_of(setup_.plan), setup_.plan.machine.resident_required,
                            [&](const std::string& text) {
                              say("message", {{"text", text}, {"level", "warning"}});
                            });
}

// After a stop some are missing, and nothing reads them, as with features.
void Training::load_resident(Worker& worker) {
  if (resident_.empty()) return;
  if (worker.is_first()) {
    const auto start = Clock::now();
    const int64_t threads = std::max<int64_t>(1, setup_.plan.machine.cores / setup_.comm.size());
    int64_t count = 0, bytes = 0;
    with_context([] { return std::string("while the images were brought to the GPU"); },
                 [&] {
                   for (ResidentImages& images : resident_) {
                     images.load(threads, setup_.stop);
                     count += images.images().size();
                     bytes += images.bytes();
                   }
                 });
    const double seconds = seconds_since(start);
    say("message", {{"text", with_commas(count) + " images brought to the GPU in " + fixed(seconds, 1) +
                                 " s; " + as_bytes(bytes) + " there"},
                    {"level", "info"},
                    {"seconds", seconds}});
  }
  group_.barrier();
}

const ResidentImages* Training::resident_of(const data::ImageSet& images) const {
  for (const ResidentImages& resident : resident_) {
    if (&resident.images() == &images) return &resident;
  }
  return nullptr;
}

data::Shard Training::with_features(data::Shard shard, const Features* features, ShardRunner& runner) {
  if (features != nullptr) shard.input = features->rows(shard.samples, runner);
  return shard;
}

void Training::walk(Worker& worker) {
  // A run that was stopped inside a validation makes it again, and what follows from it.
  if (validation_is_due(worker.step) && state_.validated_step < worker.step) {
    validate(worker);
    if (worker.is_first()) save_if_due();
  }
  // One that was stopped or killed after its last validation, before it said so, has ended there.
  if (worker.is_first() && patience_is_over(setup_.plan, state_)) end_with(EndReason::patience);
  while (!is_last(worker.step)) {
    if (!train_step(worker)) break;
    if (validation_is_due(worker.step)) validate(worker);
    if (worker.is_first()) save_if_due();
  }
  group_.barrier([&] {
    agree();
    collect_state();
  });
  if (reason_ == EndReason::stopped) return;
  if (averaging_ && !averaging_->is_average(worker.step)) {
    averaging_->average(worker.thread, worker.step);
    group_.barrier();
  }
  if (setup_.test != nullptr) {
    const Score result = score(worker, *setup_.test);
    if (!worker.is_first()) return;
    if (result.count < setup_.test->size()) return end_with(EndReason::stopped);
    test_score_ = result;
  }
}

// Of the whole training, as far as is known.
bool Training::is_end(int64_t step) const {
  return is_last(step) &&
         (!setup_.more_passes || (setup_.plan.length.max_steps > 0 && step >= setup_.plan.length.max_steps));
}

int64_t Training::epochs_begun() const {
  const Plan& plan = setup_.plan;
  return state_.step == plan.length.first_step ? plan.length.first_epoch
                                               : schedule_.epoch_of(state_.step - 1) + 1;
}

// In averaging mode what is due waits for the next average. At the end of an epoch of unknown length, 0, the
// run ends.
bool Training::is_due(int64_t step, int64_t every) const {
  if (every == 0) return false;
  if (!averaging_) return step % every == 0;
  return averaging_->is_average(step) && step / every > averaging_->last_average_before(step) / every;
}

bool Training::validation_is_due(int64_t step) const {
  return setup_.validation != nullptr && step > 0 &&
         (is_due(step, setup_.plan.length.validate_every) || is_end(step));
}

// One optimizer step. False when the run has ended; the step is then not made.
bool Training::train_step(Worker& worker) {
  const auto start = Clock::now();
  worker.times = {};
  const LossScale scale = state_.scale();
  auto batch = worker.next_batch(setup_);
  if (const ResidentImages* resident = resident_of(*setup_.train); batch && resident != nullptr)
    resident->fill(batch->shards);
  worker.times.queue = seconds_since(start);
  if (!batch) {
    if (!setup_.stop.stop_requested())
      throw Error(ErrorCode::internal, "the mini-batch queue ended before the run");
    end_with(EndReason::stopped);
  }
  do {
    if (batch) train_part(worker, *batch);
    group_.barrier([&] {
      if (setup_.plan.data.streamed && batch && batch->ends_epoch) end_after(worker.step + 1);
      if (averaging_) return void(agree());
      exchange_.synchronize(batch ? batch->shard_count : 0);
    });
  } while (begins_anew(worker));
  if (ended_) return false;

  const auto arrived = Clock::now();
  device::UpdateRule rule = optimizer_.rule_at(worker.step - scale.skipped, schedule_.at(worker.step));
  if (scales_loss()) rule.gradient_scale = 1 / scale.factor;
  if (averaging_) {
    const int64_t stepping =
        averaging_->share_gradients(worker.thread, worker.step + 1, samples_of_replicas(*batch, setup_.plan));
    averaging_->update(worker.thread, stepping, rule);
  } else {
    exchange_.step(worker.thread, batch->shard_count, rule);
  }
  Score score;
  if (worker.is_first()) {
    score = fold_step(batch->shard_count);
    if (scales_loss()) state_.set_scale(next(scale, exchange_.skipped(), worker.step + 1));
    if (is_mixed(setup_.plan.step.precision)) AutocastScope::forget_casts();
    hidden_states_.commit();
    state_.step = worker.step + 1;
  }
  group_.barrier();

  ++worker.step;
  if (averaging_ && averaging_->is_average(worker.step)) average(worker, score);
  const auto updated = Clock::now();
  StepTimes& times = worker.times;
  times.hidden_exchange = exchange_.hidden_seconds();
  times.exchange = seconds_between(start, arrived) - times.queue - times.forward - times.backward;
  times.update = seconds_between(arrived, updated);
  times.whole = seconds_between(start, updated);
  if (worker.is_first() && state_.skipped_steps > scale.skipped) report_skip(scale.factor);
  if (worker.is_first()) report_cache_failure();
  if (worker.is_first()) report_step(times, score);
  return true;
}

// The worker's own shards and what others have not begun, until the run ends or memory runs out.
void Training::train_part(Worker& worker, const data::Batch& batch) {
  if (scales_loss()) worker.runner.set_loss_scale(state_.loss_scale);
  shard_queue_.offer(worker.thread.rank, batch.shards);
  exchange_.begin(worker.thread, static_cast<int64_t>(batch.shards.size()), batch.shard_count);
  while (true) {
    const int64_t most =
        averaging_ || batch.shards.empty() ? 1 : worker.runner.most_together(batch.shards.front().count);
    const auto shards = shard_queue_.take(worker.thread.rank, most, batch.shard_count);
    if (shards.empty()) break;
    if (setup_.stop.stop_requested()) end_with(EndReason::stopped);
    if (ended_ || out_of_memory_) break;
    try {
      train_shards(worker, shards, batch);
    } catch (...) {
      const Error error = device::error_of(std::current_exception());
      if (error.code() != ErrorCode::out_of_memory) throw;
      if (!may_split(shards.front().count)) throw step_error(error, worker.step, shards, batch.shard_count);
      out_of_memory_ = true;
    }
  }
}

// In a barrier: the stream gives no more.
void Training::end_after(int64_t step) {
  last_step_ = step;
  if (!setup_.more_passes) averaging_->end_after(step);
}

// After a meeting, every worker: whether the step was dropped to be computed in more pieces.
bool Training::begins_anew(Worker& worker) {
  if (!splitting_) return false;
  worker.runner.set_pieces(state_.pieces);
  if (worker.is_first()) report_split();
  return true;
}

// One, or a node of the tree.
void Training::train_shards(Worker& worker, const std::vector<data::Shard>& shards,
                            const data::Batch& batch) {
  const int64_t begin = shards.front().index;
  const std::span<ShardResult> results =
      std::span(shard_results_).subspan(static_cast<size_t>(begin), shards.size());
  if (averaging_) {
    const data::Shard shard = with_features(shards.front(), features_of(*setup_.train), worker.runner);
    results.front() =
        worker.runner.train(averaging_->network(begin), shard, target_count(shard), worker.step);
    results.front().hidden_state.clear();
    averaging_->keep_gradients(begin);
  } else {
    train_node(worker, shards, batch, results);
  }
  for (int64_t shard = begin; const ShardResult& result : results) {
    shard_workers_[static_cast<size_t>(shard++)] = worker.all.rank;
    worker.times.forward += result.forward_seconds;
    worker.times.backward += result.backward_seconds;
  }
}

void Training::train_node(Worker& worker, const std::vector<data::Shard>& shards, const data::Batch& batch,
                          std::span<ShardResult> results) {
  const data::Shard& first = shards.front();
  const Range node{first.index, first.index + static_cast<int64_t>(shards.size())};
  std::unique_ptr<kernels::GradientTarget> target;
  if (exchange_.begin_early(worker.thread, node)) {
    worker.runner.hand_over_early([&](size_t parameter, const at::Tensor& gradient) {
      exchange_.take_early(worker.thread, parameter, gradient);
    });
  } else if (state_.pieces == 1) {
    target = exchange_.begin_in_place(worker.thread, node);
  }
  if (node.count() > 1) {
    std::ranges::move(worker.runner.train_together(data::joined(shards), node.count(), batch.target_count),
                      results.begin());
  } else {
    const int64_t slot = first_slot(batch, first);
    results.front() = worker.runner.train(with_features(first, features_of(*setup_.train), worker.runner),
                                          batch.target_count, worker.step, hidden_states_.rows(first, slot));
    hidden_states_.put(slot, std::exchange(results.front().hidden_state, {}));
  }
  exchange_.take(worker.thread, node, worker.runner.gradients(), target.get());
}

void Training::average(Worker& worker, const Score& score) {
  const auto start = Clock::now();
  averaging_->average(worker.thread, worker.step);
  if (worker.is_first()) state_.averaged_step = worker.step;
  group_.barrier();
  if (worker.is_first()) report_average(seconds_since(start), score);
}

// The mini-batch's loss and accuracy, and the running statistics: all folded in the tree, whoever computed
// the shards.
Score Training::fold_step(int64_t shard_count) {
  reduce_results(shard_results_, shard_count, state_.pieces, norms_, setup_.comm);
  check_losses(shard_count);
  computed_by_ = std::exchange(shard_workers_, owners_);
  computed_by_.resize(static_cast<size_t>(shard_count));
  if (averaging_) averaging_->note(shard_results_, shard_count, state_.step + 1);
  const auto sum =
      comm::fold(shard_results_, 0, shard_count, [](const ShardResult& left, const ShardResult& right) {
        ShardResult both{.loss = left.loss + right.loss,
                         .correct = left.correct + right.correct,
                         .count = left.count + right.count,
                         .targets = left.targets + right.targets,
                         .moments = {}};
        for (size_t i = 0; i < left.moments.size(); ++i)
          both.moments.push_back(pooled(left.moments[i], right.moments[i]));
        return both;
      });
  if (!norms_.empty() && !averaging_) apply_moments(weights_, norms_, sum.moments);
  const auto count = static_cast<double>(std::max<int64_t>(1, sum.targets));
  return {sum.loss / count, static_cast<double>(sum.correct) / count, sum.count};
}

Score Training::score(Worker& worker, const data::ImageSet& images) {
  const Plan& plan = setup_.plan;
  const int64_t batches = data::steps_per_epoch(images.size(), plan.step.mini_batch_size);
  const Features* features = features_of(images);
  const ResidentImages* resident = resident_of(images);
  if (worker.is_first()) evaluation_results_.assign(static_cast<size_t>(batches * plan.step.shards), {});
  worker.runner.begin_evaluation();
  group_.barrier();
  const std::shared_ptr<const data::ImageSet> unowned(&images, [](const data::ImageSet*) {});
  data::MiniBatchQueue queue(unowned, worker.all,
                             {.mini_batch_size = plan.step.mini_batch_size,
                              .shards = plan.step.shards,
                              .ranks = setup_.comm.size(),
                              .order = {.shuffle = data::Shuffle::never},
                              .least_time_steps = setup_.plan.data.least_time_steps,
                              .pinned = device_of(plan).is_cuda(),
                              .images_wanted = features == nullptr && resident == nullptr});
  HiddenStates hidden_state = hidden_states(plan, prototype_, weights_);
  while (auto batch = queue.next(setup_.stop)) {
    if (resident != nullptr) resident->fill(batch->shards);
    for (const data::Shard& shard : batch->shards) {
      if (setup_.stop.stop_requested()) break;
      ShardResult& result =
          evaluation_results_[static_cast<size_t>(batch->cursor.step * plan.step.shards + shard.index)];
      result = worker.runner.evaluate(with_features(shard, features, worker.runner), nullptr,
                                      hidden_state.rows(shard, first_slot(*batch, shard)));
      hidden_state.put(first_slot(*batch, shard), std::exchange(result.hidden_state, {}));
    }
    hidden_state.commit();
  }
  group_.barrier();
  if (!worker.is_first()) return {};  // the first may already be filling the next evaluation's results
  reduce_results(evaluation_results_, static_cast<int64_t>(evaluation_results_.size()), 1, {}, setup_.comm);
  ShardResult sum;
  for (const ShardResult& result : evaluation_results_) {
    sum.loss += result.loss;
    sum.correct += result.correct;
    sum.count += result.count;
    sum.targets += result.targets;
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, sum.targets));
  return {sum.loss / count, static_cast<double>(sum.correct) / count, sum.count};
}

void Training::validate(Worker& worker) {
  worker.runner.check_aliases();
  if (averaging_ && worker.is_first()) averaging_->check_aliases();
  const auto start = Clock::now();
  const Score result = score(worker, *setup_.validation);
  if (!worker.is_first()) return;
  if (result.count < setup_.validation->size())
    return end_with(EndReason::stopped);  // in the middle: made again at resume
  const double seconds = seconds_since(start);
  note_validation(result);
  say("validation", {{"loss", result.loss},
                     {"accuracy", result.accuracy},
                     {"samples", result.count},
                     {"best", best_pending_},
                     {"images_per_second", static_cast<double>(result.count) / seconds}});
  if (patience_is_over(setup_.plan, state_)) end_with(EndReason::patience);
}

void Training::note_validation(const Score& score) {
  const bool sane = std::isfinite(score.loss);
  const bool risen = sane && score.accuracy > state_.best_accuracy;
  state_.validated_step = state_.step;
  state_.validation_accuracy = score.accuracy;
  state_.validation_loss = score.loss;
  state_.validations_since_best = risen ? 0 : state_.validations_since_best + 1;
  best_pending_ = risen || (sane && score.accuracy == state_.best_accuracy && score.loss < state_.best_loss);
  if (!best_pending_) return;
  state_.best_accuracy = score.accuracy;
  state_.best_loss = score.loss;
  state_.best_step = state_.step;
}

// Between steps: the weights do not change before this worker reaches the next barrier.
void Training::save_if_due() {
  const Plan& plan = setup_.plan;
  const auto start = Clock::now();
  state_.seconds = now_seconds() - started_;
  if (is_due(state_.step, plan.record.hash_every) || is_end(state_.step)) {
    const uint64_t hash = weights_.hash();
    compare_hashes(setup_.comm, hash, state_.step);
    say("hash", {{"weights", as_hex(hash)}});
  }
  const bool best = std::exchange(best_pending_, false);
  // A resume from before a split would have to run out of memory in the same step.
  const bool split = split_unsaved_ && is_due(state_.step, 1);
  if (split) split_unsaved_ = false;
  bool due = (split || is_due(state_.step, plan.record.checkpoint_every)) && !is_last(state_.step);
  if (due) collect_state();
  if (setup_.writer == nullptr) return;
  if (due && !best && !split && setup_.writer->busy()) {
    ++skipped_checkpoints_;
    due = false;
  }
  if (due || best) {
    Snapshot saved = snapshot(due, best);
    if (best) saved.state.best_weights_hash = state_.best_weights_hash = tensors_hash(saved.weights);
    setup_.writer->submit(std::move(saved));
  }
  checkpoint_seconds_ += seconds_since(start);
}

// What a checkpoint by rank 0 needs of the others. All ranks.
void Training::collect_state() {
  hidden_states_.collect(setup_.comm, slots_of_rank(setup_));
  if (averaging_) averaging_->collect(state_.step);
}

nn::NamedTensors Training::optimizer_state() {
  nn::NamedTensors state = averaging_ ? averaging_->state(state_.step) : optimizer_.state(weights_);
  for (auto& hidden_state : hidden_states_.state()) state.push_back(std::move(hidden_state));
  return state;
}

Snapshot Training::snapshot(bool checkpoint, bool best) {
  const auto copies = [](nn::NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    return tensors;
  };
  return {.state = state_,
          .fingerprint = setup_.fingerprint,
          .weights = copies(weights_.state()),
          .optimizer = checkpoint ? copies(optimizer_state()) : nn::NamedTensors{},
          .checkpoint = checkpoint,
          .best = best};
}

}  // namespace lockstep::train
