#include "lockstep/train/custom/run_record.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/seconds.h"
#include "lockstep/device/failure.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/custom/internal/mini_batch_order.h"
#include "lockstep/train/custom/internal/model_parts.h"
#include "lockstep/train/custom/internal/named_copies.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/loop/run_reports.h"
#include "lockstep/train/loop/wishes.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/record/state.h"
#include "lockstep/train/run/run_log.h"
#include "lockstep/train/run/run_requests.h"
#include "lockstep/train/run/run_result.h"
#include "lockstep/train/run/start_events.h"
#include "lockstep/view/views.h"

namespace lockstep::train {

// What a checkpoint of a custom loop has beside the tensors.
struct RunRecord::Position {
  int64_t epoch = 0;
  int64_t mini_batch = 0;
  int64_t updater_steps = 0;
  int64_t updater_skipped = 0;
  int64_t exchanges = 0;
  Json order = Json::object();  // what decides the mini-batches
};

namespace {

Json json_of(const RunRecord::Position& position) {
  return {{"epoch", position.epoch},
          {"mini-batch", position.mini_batch},
          {"updater-steps", position.updater_steps},
          {"updater-skipped", position.updater_skipped},
          {"exchanges", position.exchanges},
          {"order", position.order}};
}

RunRecord::Position position_of(const Json& json) {
  try {
    return {.epoch = json.at("epoch").get<int64_t>(),
            .mini_batch = json.at("mini-batch").get<int64_t>(),
            .updater_steps = json.at("updater-steps").get<int64_t>(),
            .updater_skipped = json.at("updater-skipped").get<int64_t>(),
            .exchanges = json.at("exchanges").get<int64_t>(),
            .order = json.at("order")};
  } catch (const Json::exception&) {
    throw Error(ErrorCode::corrupt_data, "the checkpoint is not one of a custom loop",
                "name another --output, or continue the run with the program that began it");
  }
}

}  // namespace

struct RunRecord::State {
  State(pool::Worker& of, const BuiltModel& trained, LearnableUpdater* of_model,
        const RunRecordOptions& asked)
      : worker(of), model(trained), updater(of_model), options(asked), leads(of.rank() == 0) {}

  pool::Worker& worker;
  const BuiltModel& model;
  LearnableUpdater* updater;
  const RunRecordOptions& options;
  const bool leads;
  const double began = now_seconds();
  std::optional<record::RunFolder> run_folder{};  // rank 0's
  std::filesystem::path folder{};
  RunState run{};
  Position position{};
  bool resumed = false;
  int64_t epochs = 0;  // begun
  int64_t attempt = 0;
  RunLog log{};
  Wishes wishes{};
  EndReason reason = EndReason::finished;
  std::optional<record::Validation> validated{};
  double last_logged = now_seconds();
  double first_step_ended = 0;
  int64_t timed_images = 0;  // without the first step's
  int64_t unlogged_images = 0;
  LossRange unlogged_losses{};
  int64_t steps_here = 0;
  bool is_thrown_out = false;  // of its loop, by a cancellation

  void open();
  void restore();
  void begin_log();
  void walk(const std::function<void(RunRecord&)>& loop);
  bool is_logged(const data::Batch& batch) const;
  void log_step(const data::Batch& batch, const MiniBatchSums& whole, double learning_rate);
  Snapshot snapshot() const;
  void save();
  int64_t agree();
  bool is_at_a_step() const;
  void end();
};

// Rank 0 opens the folder; all ranks learn where the run stands.
void RunRecord::State::open() {
  Json decided;
  std::optional<Checkpoint> checkpoint;
  if (leads) {
    const bool continues = options.resume && !options.output.empty() && record::holds_run(options.output);
    run_folder = continues                ? record::RunFolder::open(options.output)
                 : options.output.empty() ? record::RunFolder::create_numbered(options.name)
                                          : record::RunFolder::create(options.output);
    folder = run_folder->paths().folder;
    if (continues) {
      remove_unfinished(folder);
      checkpoint = last_checkpoint(folder);
    }
    if (checkpoint) {
      run = checkpoint->state;
      position = position_of(checkpoint->fingerprint);
      copy_named(model.state(), read_tensors(*checkpoint, "model.safetensors"), "tensor");
      if (updater != nullptr)
        copy_named(updater->state(), read_tensors(*checkpoint, "optimizer.safetensors"), "optimizer state");
    }
    decided = {{"folder", folder.string()},
               {"run", lockstep::to_json(run)},
               {"position", json_of(position)},
               {"resumed", checkpoint.has_value()}};
  }
  decided = broadcast_json(worker.comm(), decided);
  folder = decided["folder"].get<std::string>();
  read_json(decided["run"], run, "the state of rank 0");
  position = position_of(decided["position"]);
  resumed = decided["resumed"].get<bool>();
}

void RunRecord::State::restore() {
  if (!resumed) return;
  std::vector<at::Tensor> tensors = tensors_of(model.state());
  worker.comm().broadcast(tensors, 0);
  model.parts().exchanges = position.exchanges;
  model.parts().loss_scale = run.scale();
  if (updater == nullptr) return;
  std::vector<at::Tensor> state = tensors_of(updater->state());
  if (!state.empty()) worker.comm().broadcast(state, 0);
  updater->set_counts(position.updater_steps, position.updater_skipped);
}

void RunRecord::State::begin_log() {
  if (!leads) return;
  attempt = record::next_attempt(folder);
  Views views;
  views.push_back(view::svg_curves(folder));
  views.push_back(view::tensorboard(folder, attempt));
  const std::string damage = add_earlier(views, folder);
  record::Status status = status_at(run, attempt, LengthPlan{});
  status.epoch = position.epoch + (position.mini_batch > 0 ? 1 : 0);
  log.open({folder}, status, std::move(views));
  log.say(environment_here(options.data, worker.size(), worker.size()));
  log.say(record::PlanOfRun{.network = model.parts().network.name(),
                            .folder = options.data,
                            .output = folder.string(),
                            .classes = model.parts().classes});
  if (!damage.empty()) log.message(damage, "warning");
  if (resumed) log.message("continuing after step " + std::to_string(run.step), "info");
}

void RunRecord::State::walk(const std::function<void(RunRecord&)>& loop) {
  std::optional<record::RequestWatch> watch;
  if (leads) {
    watch.emplace(folder);
    begin_watch(*watch, folder, log, wishes);
  }
  RunRecord record(*this);
  loop(record);
}

bool RunRecord::State::is_logged(const data::Batch& batch) const {
  const int64_t asked = wishes.log_every;
  return run.step <= 10 || run.step % 10 == 0 || batch.ends_epoch || (asked > 0 && run.step % asked == 0);
}

void RunRecord::State::log_step(const data::Batch& batch, const MiniBatchSums& whole, double learning_rate) {
  if (steps_here++ == 0) {
    first_step_ended = now_seconds();
    log.say(record::FirstStep{.seconds = first_step_ended - began}, run.step, epochs);
  } else {
    timed_images += whole.count;
  }
  unlogged_images += whole.count;
  unlogged_losses.add(whole.loss, run.step);
  if (!is_logged(batch)) return;
  const double now = now_seconds();
  log.say(record::Step{.loss = whole.loss,
                       .least_loss = unlogged_losses.least,
                       .least_loss_step = unlogged_losses.least_step,
                       .largest_loss = unlogged_losses.largest,
                       .largest_loss_step = unlogged_losses.largest_step,
                       .learning_rate = learning_rate,
                       .samples = whole.count,
                       .images_per_second = static_cast<double>(unlogged_images) / (now - last_logged)},
          run.step, epochs);
  last_logged = now;
  unlogged_images = 0;
  unlogged_losses = {};
}

Snapshot RunRecord::State::snapshot() const {
  return {.state = run,
          .fingerprint = json_of(position),
          .weights = copies_of(model.state()),
          .optimizer = updater == nullptr ? nn::NamedTensors{} : copies_of(updater->state())};
}

void RunRecord::State::save() {
  if (!leads) return;
  const double start = now_seconds();
  const std::filesystem::path path = write_checkpoint(folder, snapshot());
  log.say(record::SavedCheckpoint{{.path = path.string(), .seconds = now_seconds() - start}}, run.step,
          epochs);
}

// What the ranks do after this step: 0 go on, 1 save, 2 finish, 3 stop.
int64_t RunRecord::State::agree() {
  wishes.check();
  int64_t own = 0;
  if (wishes.checkpoint.exchange(false)) own = 1;
  if (wishes.finish) own = 2;
  if (wishes.stop.stop_requested() || worker.stop_token().stop_requested()) own = 3;
  if (worker.asked_token().stop_requested()) own = std::max<int64_t>(own, 2);
  return static_cast<int64_t>(worker.comm().all_reduce(static_cast<double>(own), comm::Reduction::max));
}

// Whether the weights are those after the last step that was recorded. An exception may leave the loop
// between an update and its record; where nothing counts the updates, this cannot be told.
bool RunRecord::State::is_at_a_step() const {
  const int64_t exchanges = model.parts().exchanges;
  if (exchanges != position.exchanges) return false;
  return updater == nullptr ? exchanges > 0 : updater->steps() == position.updater_steps;
}

// After the loop.
void RunRecord::State::end() {
  run.seconds += now_seconds() - began;
  if (!leads) return;
  const bool stopped = reason == EndReason::stopped;
  if (reason == EndReason::finished) run.finished = describe_detail::as_text(reason);
  if (!stopped) {
    const nn::NamedTensors weights = copies_of(model.state());
    nn::write_safetensors_atomic(record::RunPaths{folder}.weights(), weights);
    run.weights_hash = tensors_hash(weights);
  }
  if (is_thrown_out && !is_at_a_step())
    log.message("cancelled inside a step; a resume begins at the checkpoint before it", "warning");
  else if (run.step > 0)
    write_checkpoint(folder, snapshot());
  record::End end = end_of(run, describe_detail::as_text(reason), StepPlan{}, {folder});
  if (std::isnan(end.loss.value_or(0))) end.loss.reset();
  const double seconds = now_seconds() - first_step_ended;
  if (timed_images > 0) end.images_per_second = static_cast<double>(timed_images) / seconds;
  record::Result result = record_of(run, end);
  result.epochs = epochs;
  result.weights_hash = as_hex(model.hash());
  result.started = began;
  log.say(end, run.step, epochs);
  record::write_result(folder, result);
  const std::string from = wishes.asked_by();
  const std::string stop_reason = from.empty() ? "its program asked for it" : from + " asked for it";
  log.finish(stopped ? record::RunState::stopped : record::RunState::ended,
             reason == EndReason::finished ? end.reason : stop_reason);
}

data::QueueOptions RunRecord::from_here(data::QueueOptions options) {
  const Json order = order_of(options);
  if (state_.resumed) check_order(order, state_.position.order);
  state_.position.order = order;
  if (state_.resumed) options.start = {.epoch = state_.position.epoch, .step = state_.position.mini_batch};
  return options;
}

bool RunRecord::step(const data::Batch& batch, const MiniBatchSums& whole) {
  return step(batch, whole, state_.updater != nullptr ? state_.updater->learning_rate() : record::kNone);
}

bool RunRecord::step(const data::Batch& batch, const MiniBatchSums& whole, double learning_rate) {
  State& state = state_;
  ++state.run.step;
  state.epochs = batch.cursor.epoch + 1;
  state.position.epoch = batch.ends_epoch ? batch.cursor.epoch + 1 : batch.cursor.epoch;
  state.position.mini_batch = batch.ends_epoch ? 0 : batch.cursor.step + 1;
  state.position.exchanges = state.model.parts().exchanges;
  state.run.set_scale(state.model.parts().loss_scale);
  if (state.updater != nullptr) {
    state.position.updater_steps = state.updater->steps();
    state.position.updater_skipped = state.updater->skipped();
  }
  if (state.leads) state.log_step(batch, whole, learning_rate);
  const int64_t move = state.agree();
  if (move == 3) state.reason = EndReason::stopped;
  if (move == 2) state.reason = EndReason::request;
  if (move >= 2) return false;
  const int64_t every = state.options.checkpoint_every;
  if (move == 1 || (every > 0 ? state.run.step % every == 0 : batch.ends_epoch)) state.save();
  return true;
}

void RunRecord::validation(double accuracy, double loss) {
  State& state = state_;
  const bool best = accuracy > state.run.best_accuracy;
  if (best) {
    state.run.best_accuracy = accuracy;
    state.run.best_loss = loss;
    state.run.best_step = state.run.step;
  }
  state.run.validation_accuracy = accuracy;
  state.run.validation_loss = loss;
  state.run.validated_step = state.run.step;
  if (state.leads)
    state.log.say(record::Validation{.loss = loss, .accuracy = accuracy, .best = best}, state.run.step,
                  state.epochs);
}

void RunRecord::message(const std::string& text) {
  if (state_.leads) state_.log.message(text, "info");
}

int64_t RunRecord::steps() const { return state_.run.step; }

const std::filesystem::path& RunRecord::folder() const { return state_.folder; }

void record_run(pool::Worker& worker, const BuiltModel& model, LearnableUpdater* updater,
                const RunRecordOptions& options, const std::function<void(RunRecord&)>& loop) {
  RunRecord::State state(worker, model, updater, options);
  state.open();
  state.restore();
  state.begin_log();
  std::exception_ptr cancellation;
  try {
    try {
      state.walk(loop);
    } catch (const Error& error) {
      // A task that is cancelled is thrown out of its loop by any exchange. The same error without a
      // cancellation is another rank's failure.
      if (error.code() != ErrorCode::cancelled || !was_cancelled(worker)) throw;
      cancellation = std::current_exception();
      state.is_thrown_out = true;
      state.reason = EndReason::stopped;
    }
    state.end();
  } catch (...) {
    state.log.fail(device::error_of(std::current_exception()), worker.rank());
    throw;
  }
  if (cancellation != nullptr) std::rethrow_exception(cancellation);
  worker.comm().barrier();  // when a rank returns, the weights are written
}

}  // namespace lockstep::train
