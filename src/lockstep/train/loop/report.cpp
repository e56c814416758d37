// What rank 0 says, and the ends that follow from it. Called between steps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/device/memory.h"
#include "lockstep/train/step/bad_loss.h"
#include "lockstep/train/loop/training.h"

namespace lockstep::train {
namespace {

// The first ten steps, then about fifty an epoch: a pure function of the step, so that two runs' logs can be
// compared. Of an epoch of unknown length, 0, every tenth.
bool is_logged(int64_t step, int64_t steps_per_epoch) {
  return step <= 10 || step % (steps_per_epoch == 0 ? 10 : std::max<int64_t>(1, steps_per_epoch / 50)) == 0;
}

std::string bad_loss_hint(int64_t steps_done, const std::string& weights) {
  if (steps_done > 0)
    return "try a smaller --learning-rate, or --gradient-clip 1; the last checkpoint is of an earlier step";
  return "no step has changed the weights yet, so no learning rate is to blame: look for values that are not "
         "finite, or very large, in " +
         (weights.empty() ? "" : "the weights \"" + weights + "\", ") +
         "the data, what --normalize makes of them, and a network of your own";
}

}  // namespace

void Training::say(const char* kind, Json values, bool log) {
  io::Event event;
  event.step = state_.step;
  event.epoch = epochs_begun();
  event.kind = kind;
  event.values = std::move(values);
  const bool refused = setup_.observer && setup_.observer(event) == io::Control::stop;
  if (refused || setup_.enough.stop_requested()) end_with(EndReason::observer);
  if (log && setup_.say) setup_.say(std::move(event));
}

void Training::report_start() {
  say("shards", {{"owners", owners_}, {"threads", thread_ids_}, {"buckets", exchange_.bucket_count()}});
}

// Weights that follow from such a loss are lost; the guilty shard and its rank are known now, and never
// again.
void Training::check_losses(int64_t shard_count) const {
  for (int64_t shard = 0; shard < shard_count; ++shard) {
    const double loss = shard_results_[static_cast<size_t>(shard)].loss;
    if (std::isfinite(loss)) continue;
    // In averaging mode a replica runs wherever a worker is free.
    const std::string place = averaging_ ? "replica " + std::to_string(shard)
                                         : "shard " + std::to_string(shard) + " of rank " +
                                               std::to_string(shard_workers_[static_cast<size_t>(shard)]);
    throw bad_loss(loss, state_.step + 1, place, bad_loss_hint(state_.step, setup_.plan.network.weights));
  }
}

// Whether twice as many pieces make those of a shard of so many samples smaller.
bool Training::may_split(int64_t samples) const {
  return setup_.plan.step.out_of_memory == OutOfMemory::split &&
         used_shards(2 * state_.pieces, samples) > used_shards(state_.pieces, samples);
}

Error Training::step_error(const Error& error, int64_t steps_done, const std::vector<data::Shard>& shards,
                           int64_t shard_count) const {
  const int64_t samples = shards.front().count, pieces = used_shards(state_.pieces, samples),
                smaller = used_shards(2 * pieces, samples);
  std::string hint;
  if (smaller > pieces) {
    const std::string half = std::to_string(divided_up(samples, smaller));
    if (!averaging_ && pieces == 1)
      hint = "--shards " + std::to_string(2 * shard_count) + " computes " + half + " at once, and ";
    hint += "--accumulate " + std::to_string(smaller) + " computes " + half + " at once" +
            (hint.empty() ? "" : " of the same shards") +
            "; --on-out-of-memory split does so by itself, also with --resume; or ";
  }
  Error whole(ErrorCode::out_of_memory, error.message(), hint + error.hint());
  for (const std::string& line : error.context()) whole.add_context(line);
  whole.add_context("in step " + std::to_string(steps_done + 1) + ", in " +
                    (averaging_ ? "replica " : "shard ") + std::to_string(shards.front().index) + " with " +
                    std::to_string(samples) + " samples" +
                    (pieces > 1          ? " in " + std::to_string(pieces) + " pieces"
                     : shards.size() > 1 ? " and " + std::to_string(shards.size() - 1) + " more beside it"
                                         : ""));
  return whole;
}

void Training::report_split() {
  const std::string pieces = std::to_string(state_.pieces), step = std::to_string(state_.step + 1);
  say("message", {{"text", "memory ran out in step " + step +
                               ", so it is computed anew, and from here on each shard in " + pieces +
                               " pieces, as with --accumulate " + pieces},
                  {"level", "warning"},
                  {"pieces", state_.pieces}});
}

void Training::report_features_so_far(int64_t done, double seconds) {
  int64_t all = 0;
  for (const Features& features : features_) all += features.images().size();
  say("features", {{"done", done},
                   {"all", all},
                   {"seconds_left", seconds * static_cast<double>(all - done) /
                                        static_cast<double>(std::max<int64_t>(1, done))}});
}

void Training::report_features(double seconds) {
  int64_t count = 0, computed = 0, bytes = 0;
  std::string where;
  for (const Features& features : features_) {
    count += features.images().size();
    computed += features.computed();
    bytes += features.bytes();
    if (where.empty() && features.file() != nullptr)
      where = " in " + features.file()->path().parent_path().string() + " (--cache)";
  }
  const std::string found =
      computed < count ? ", " + with_commas(count - computed) + " of them found there" : "";
  const std::string images = with_commas(count) + " images", took = fixed(seconds, 1) + " s";
  const std::string text = computed == 0 ? "what the frozen layers give for " + images + " was found" +
                                               where + ", read in " + took + "; " + as_bytes(bytes)
                                         : "frozen layers computed once for " + images + " in " + took +
                                               "; " + as_bytes(bytes) + " kept" + where + found;
  say("message", {{"text", text}, {"level", "info"}, {"seconds", seconds}, {"computed", computed}});
}

void Training::report_cache_failure() {
  if (said_cache_failure_) return;
  const auto report = [this](const data::RecordFile* file, const char* what) {
    const std::string failure = file == nullptr ? std::string() : file->failure();
    if (failure.empty()) return;
    said_cache_failure_ = true;
    say("message", {{"text", failure + "; the run goes on, and " + what}, {"level", "warning"}});
  };
  for (const auto& images : {setup_.train, setup_.validation}) {
    if (images != nullptr)
      report(images->cache(), "images that are not in the cache yet are decoded again in every epoch");
  }
  for (const Features& features : features_)
    report(features.file(), "what frozen layers give is computed again where it was not kept");
}

void Training::report_skip(double factor) {
  const auto shown = [](double number) {
    return number >= 1 ? with_commas(static_cast<int64_t>(number)) : shortest(number);
  };
  say("message", {{"text", "step " + std::to_string(state_.step) +
                               " was skipped: its gradients are not finite with a loss scaled by " +
                               shown(factor) + "; from here on by " + shown(state_.loss_scale)},
                  {"level", "info"},
                  {"skipped_steps", state_.skipped_steps},
                  {"loss_scale", state_.loss_scale}});
}

void Training::report_step(const StepTimes& times, const Score& score) {
  const Plan& plan = setup_.plan;
  if (steps_here_++ == 0) {
    say("first_step", {{"seconds", now_seconds() - setup_.began}});
  } else {
    timed_seconds_ += times.whole;
    timed_images_ += score.count;
  }
  unlogged_seconds_ += times.whole;
  unlogged_images_ += score.count;
  const bool log = is_logged(state_.step, plan.length.steps_per_epoch);
  if (log || setup_.observer) {
    const double rate = static_cast<double>(unlogged_images_) / unlogged_seconds_;
    const double left = plan.length.total_steps == 0
                            ? std::numeric_limits<double>::quiet_NaN()
                            : static_cast<double>(plan.length.total_steps - state_.step) *
                                  static_cast<double>(plan.step.mini_batch_size) /
                                  (timed_seconds_ > 0 ? images_per_second() : rate);
    say("step",
        {{"loss", score.loss},
         {"accuracy", score.accuracy},
         {"learning_rate", schedule_.at(state_.step - 1)},
         {"samples", score.count},
         {"images_per_second", rate},
         {"seconds_left", left},
         {"queue_seconds", times.queue},
         {"forward_seconds", times.forward},
         {"backward_seconds", times.backward},
         {"exchange_seconds", times.exchange},
         {"hidden_exchange_seconds", times.hidden_exchange},
         {"update_seconds", times.update},
         {"checkpoint_seconds", checkpoint_seconds_},
         {"shard_workers", computed_by_},
         {"page_faults", device::page_faults() - page_faults_}},
        log);
  }
  if (log) {
    unlogged_seconds_ = checkpoint_seconds_ = 0;
    unlogged_images_ = 0;
  }
  if (setup_.plan.length.max_time > 0 && now_seconds() - started_ >= setup_.plan.length.max_time)
    end_with(EndReason::max_time);
  if (setup_.enough.stop_requested()) end_with(EndReason::observer);
  page_faults_ = device::page_faults();
}

// As often in the log as steps are, if not asked for.
void Training::report_average(double seconds, const Score& score) {
  const int64_t frequency = setup_.plan.exchange.averaging_frequency;
  const int64_t each = setup_.plan.length.steps_per_epoch;
  const bool log = setup_.plan.record.report_averages ||
                   is_logged(state_.step / frequency, each == 0 ? 0 : std::max<int64_t>(1, each / frequency));
  if (log || setup_.observer) say("average", {{"score", score.loss}, {"seconds", seconds}}, log);
}

double Training::images_per_second() const {
  return timed_seconds_ > 0 ? static_cast<double>(timed_images_) / timed_seconds_ : 0;
}

void Training::end_with(EndReason reason) {
  const std::lock_guard lock(reason_mutex_);
  // A stop during the test that follows another end leaves the test to the resume.
  if (!ended_ || reason == EndReason::stopped) reason_ = reason;
  ended_ = true;
}

// Whether the step is dropped, told by one thread while the others see no reason of their own for it. Of what
// several ranks say, the largest counts: go on, split the shards, end for a reason in the order of EndReason,
// a stop before all.
bool Training::agree() {
  constexpr int kGoOn = 0, kSplit = 1, kEnd = 2;
  const std::lock_guard lock(reason_mutex_);
  const int own = ended_ ? kEnd + static_cast<int>(reason_) : out_of_memory_ ? kSplit : kGoOn;
  const auto agreed = static_cast<int>(setup_.comm.all_reduce(own, comm::Reduction::max));
  splitting_ = agreed == kSplit;
  out_of_memory_ = false;
  if (splitting_) {
    state_.pieces *= 2;
    split_unsaved_ = true;
    shard_queue_.withdraw();
    AutocastScope::forget_casts();
    device::give_freed_memory_back();  // for oneDNN, which takes its own beside the allocator's
  } else if (agreed >= kEnd) {
    reason_ = static_cast<EndReason>(agreed - kEnd);
    ended_ = true;
  }
  return agreed != kGoOn;
}

}  // namespace lockstep::train
