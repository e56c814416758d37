#include "lockstep/train/run/fit.h"

#include <cmath>
#include <limits>
#include <mutex>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/isa.h"
#include "lockstep/device/memory.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/io/event_log.h"
#include "lockstep/io/run_folder.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/run/gpu_ranks.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/loop/reporter.h"
#include "lockstep/train/run/run_files.h"
#include "lockstep/train/options/run_length.h"
#include "lockstep/train/loop/training.h"
#include "lockstep/view/views.h"

namespace lockstep::train {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

const char* name_of(EndReason reason) { return enum_names(reason)[static_cast<size_t>(reason)]; }

std::string run_name(const TrainingRequest& request) {
  if (request.folder.empty()) return request.network.empty() ? "run" : request.network.name();
  const std::filesystem::path where = io::public_name(request.folder.string());
  const std::filesystem::path file =
      (io::is_address(where.string()) ? where : std::filesystem::absolute(where).lexically_normal())
          .filename();
  const std::string name = io::without_archive_ending(file.string());
  return name.empty() ? "run" : name;
}

bool goes_on(const TrainingRequest& request) {
  return request.standing != nullptr && request.standing->begun();
}

io::RunFolder open_run_folder(const TrainingRequest& request, const Options& options) {
  if (goes_on(request)) return io::RunFolder::open(request.standing->output);
  if (options.resume) {
    if (options.output.empty())
      throw Error(ErrorCode::invalid_option, "--resume needs to know which run to go on with",
                  "add --output RUN");
    return io::RunFolder::open(options.output);
  }
  return options.output.empty() ? io::RunFolder::create_numbered(run_name(request))
                                : io::RunFolder::create(options.output);
}

class Told : public view::View {
 public:
  explicit Told(Listener listener) : listener_(std::move(listener)) {}
  void show(const io::Event& event) override { listener_(event); }

 private:
  Listener listener_;
};

std::vector<std::unique_ptr<view::View>> make_views(const TrainingRequest& request, const Options& options,
                                                    const io::RunPaths& paths, int64_t attempt) {
  std::vector<std::unique_ptr<view::View>> views;
  if (request.console)
    views.push_back(view::progress(stdout, {.plot = options.plot,
                                            .timing = options.timing,
                                            .verbose = options.verbose,
                                            .averages = options.report_score_after_averaging}));
  if (request.listener) views.push_back(std::make_unique<Told>(request.listener));
  views.push_back(view::svg_curves(paths.folder));
  views.push_back(view::tensorboard(paths.folder, attempt));
  return views;
}

// One run of fit on one rank, from the folder to the result. Members are made in the order in which they are
// needed. Rank 0 has the folder and decides; the others take its options and what it resolved.
class Run {
 public:
  Run(const TrainingRequest& request, const Options& asked, comm::Communicator& comm)
      : request_(request), comm_(comm), leads_(comm.rank() == 0), options_(asked) {
    if (leads_) open();
    const Json start = broadcast_json(
        comm_, {{"options", lockstep::to_json(options_)}, {"state", lockstep::to_json(first_state())}});
    read_json(start["options"], options_, "the options of rank 0");
    read_json(start["state"], state_, "the state of rank 0");
    device::check_isa(field_text(options_, "isa"));  // of a resume, the run's
    paths_ = {options_.output};
  }

  Result make() {
    if (!state_.finished.empty()) return finished_already();
    prepare_together();
    if (!leads_) return train();
    if (checkpoint_) warning_ = compare_fingerprints(checkpoint_->fingerprint, fingerprint_);
    // What lies on a server may be other files tomorrow.
    if (!manifest_ && prepared_.train->parallel_reads() > 0) write_listing(paths_.listing(), prepared_);
    if (!manifest_) write_manifest(paths_.options(), options_, prepared_);
    const int64_t attempt = io::next_attempt(paths_.folder);
    Reporter reporter(std::make_unique<io::EventLog>(paths_.folder, 0, attempt),
                      make_views(request_, options_, paths_, attempt), attempt);
    reporter_ = &reporter;
    try {
      // Said by the view that draws on the terminal: what another writes there it would not know to erase.
      const std::stop_callback notice(request_.stop, [&] {
        say({.kind = "stopping", .values = {{"text", stop_notice(request_.console)}}});
      });
      Result result = train();
      reporter.finish();
      return result;
    } catch (...) {
      // The first failure is the one to report; what the log met while it closes is its consequence.
      try {
        reporter.finish();
      } catch (...) {
      }
      throw;
    }
  }

 private:
  // Rank 0's.
  RunState first_state() const {
    if (checkpoint_) return checkpoint_->state;
    return leads_ && goes_on(request_) ? request_.standing->snapshot.state : RunState{};
  }

  void open() {
    check_values(options_);
    folder_.emplace(open_run_folder(request_, options_));
    const Options asked = options_;
    if (asked.resume) {
      manifest_ = read_manifest(folder_->paths().options());
      checkpoint_ = last_checkpoint(folder_->paths().folder);
      if (!manifest_) refuse_without_options();
      resume_with(asked);
    }
    if (asked.resume || goes_on(request_)) remove_unfinished(folder_->paths().folder);
    options_.output = folder_->paths().folder.string();
  }

  [[noreturn]] void refuse_without_options() const {
    const std::string run = "the run in \"" + folder_->paths().folder.string() + "\" ";
    if (checkpoint_) {
      throw Error(ErrorCode::not_found,
                  run + "has a checkpoint and no options.json, so nobody can tell how it was trained",
                  "put the file back, or start a new run with another --output");
    }
    throw Error(ErrorCode::not_found,
                run + "ended before it had written its options.json, so there is nothing to go on with",
                "give its command again without --resume");
  }

  // Before the first checkpoint nothing was learned that other options could spoil; what the run had resolved
  // is then resolved anew.
  void resume_with(const Options& asked) {
    const Change change = checkpoint_ ? Change::refused : Change::allowed;
    options_ = resumed_options(asked, manifest_->options, request_.given, change);
    if (change == Change::allowed && !same_training(options_, manifest_->options)) manifest_.reset();
  }

  // The others follow what rank 0 resolved, for another machine may have other cores, or a trial another
  // outcome.
  void prepare_together() {
    const auto prepare_here = [&](const Plan* earlier) {
      prepared_ = prepare(request_, options_, /*dry=*/false, earlier);
      if (request_.standing != nullptr) begin_where_it_stands();
      fingerprint_ = fingerprint_of(options_, prepared_, comm_.size());
    };
    Json decided;
    if (leads_) {
      prepare_here(manifest_ ? &manifest_->plan : nullptr);
      decided = {{"plan", lockstep::to_json(prepared_.plan)},
                 {"fingerprint", fingerprint_},
                 {"folder", request_.folder.string()}};
    }
    decided = broadcast_json(comm_, decided);
    if (leads_) return;
    const Plan resolved = read_plan(decided["plan"]);
    prepare_here(&resolved);
    compare_with_rank_0(comm_, fingerprint_, decided["fingerprint"], request_.folder.string(),
                        decided["folder"].get<std::string>());
  }

  // Steps and passes count on, over all calls of fit.
  void begin_where_it_stands() {
    Plan& plan = prepared_.plan;
    plan.length.first_step = state_.first_step;
    plan.length.first_epoch = state_.first_epoch;
    if (plan.length.steps_per_epoch > 0)
      plan.length.total_steps =
          plan.length.first_step +
          total_steps(plan.length.max_epochs, plan.length.steps_per_epoch, plan.length.max_steps);
    if (plan.length.max_steps > 0)
      plan.length.total_steps = plan.length.total_steps > 0
                                    ? std::min(plan.length.total_steps, plan.length.max_steps)
                                    : plan.length.max_steps;
    plan.length.schedule_steps = plan.length.max_steps > 0 ? plan.length.max_steps : plan.length.total_steps;
    if (plan.update.lr_schedule != ScheduleKind::cosine || plan.length.max_steps > 0 ||
        (plan.length.first_step == 0 && plan.length.total_steps > 0))
      return;
    throw Error(
        ErrorCode::invalid_option,
        plan.length.first_step > 0
            ? "the learning rate has fallen to 0: its cosine schedule ended with the first fit, after " +
                  std::to_string(plan.length.first_step) + " steps"
            : "the learning rate's cosine schedule needs to know the number of steps, and the iterator does "
              "not tell it",
        "set Options::max_steps to the number of steps of all fits together, or lr_schedule to constant or "
        "piecewise");
  }

  // From 1.
  int64_t epoch_of(int64_t step) const {
    const Plan& plan = prepared_.plan;
    return plan.length.first_epoch + 1 +
           (plan.length.steps_per_epoch == 0
                ? 0
                : (step - 1 - plan.length.first_step) / plan.length.steps_per_epoch);
  }

  // What the next call of fit goes on from.
  void leave(Training& training) const {
    if (request_.standing == nullptr || !leads_) return;
    Standing ended{training.snapshot(), paths_.folder};
    RunState& state = ended.snapshot.state;
    state.finished.clear();
    state.first_epoch = training.epochs_begun();
    state.first_step = state.step;
    *request_.standing = std::move(ended);
  }

  Result finished_already() {
    if (leads_) complete_log();
    return result_at(state_, EndReason::already_finished);
  }

  // One that was killed after its last checkpoint had no time to say its end. What only the killed process
  // knew (speed, memory) is left out.
  void complete_log() {
    const int64_t attempt = io::next_attempt(paths_.folder);
    if (attempt == 0 || io::end_of_last_attempt(paths_.folder)) return;
    std::vector<std::unique_ptr<view::View>> views;
    if (request_.listener) views.push_back(std::make_unique<Told>(request_.listener));
    Reporter reporter(std::make_unique<io::EventLog>(paths_.folder, 0, attempt), std::move(views), attempt);
    const int64_t steps_per_epoch = manifest_->plan.length.steps_per_epoch;
    Json values = values_at(state_, state_.finished, manifest_->plan.step.precision == Precision::fp16_mixed);
    reporter.say({.epoch = steps_per_epoch > 0 ? divided_up(state_.step, steps_per_epoch) : 0,
                  .step = state_.step,
                  .kind = "end",
                  .values = std::move(values)});
    reporter.finish();
  }

  void message(const std::string& text, const char* level) {
    say({.kind = "message", .values = {{"text", text}, {"level", level}}});
  }
  void say(io::Event event) {
    if (reporter_ == nullptr) return;
    const std::lock_guard lock(say_mutex_);
    reporter_->say(std::move(event));
  }

  // What memory that ran out has changed.
  std::string pieces_text() const {
    return state_.pieces > prepared_.plan.step.accumulate
               ? ", each shard in " + std::to_string(state_.pieces) + " pieces since memory ran out"
               : "";
  }

  void say_start() {
    Json plan = values_of(prepared_.plan);
    for (const std::string& warning : prepared_.plan.warnings) message(warning, "warning");
    plan["folder"] = request_.folder.string();
    plan["output"] = paths_.folder.string();
    Json lines = Json::array();
    for (const PlanLine& line : prepared_.plan.lines) lines.push_back({line.name, line.value, line.reason});
    plan["lines"] = std::move(lines);
    say({.kind = "plan", .values = std::move(plan)});
    if (options_.resume && checkpoint_)
      message("going on after step " + std::to_string(checkpoint_->state.step) + pieces_text(), "info");
    if (options_.resume && !checkpoint_) message("the run has no checkpoint yet, so it starts anew", "info");
    if (!warning_.empty()) message(warning_, "warning");
    for (const std::string& note : prepared_.notes) message(note, "info");
    const std::string bad = options_.weights.empty() || checkpoint_
                                ? std::string()
                                : nn::not_finite(nn::state_of(*prepared_.prototype.module));
    if (!bad.empty()) message("the weights in \"" + options_.weights + "\" have " + bad, "warning");
    constexpr size_t kNamed = 10;
    for (size_t i = 0; i < std::min(kNamed, prepared_.skipped.size()); ++i)
      message("skipped \"" + prepared_.skipped[i].source + "\": " + prepared_.skipped[i].reason, "warning");
    if (!prepared_.skipped.empty()) {
      Json all = Json::array();
      for (const data::BadSample& sample : prepared_.skipped) all.push_back({sample.source, sample.reason});
      message("skipped " + std::to_string(prepared_.skipped.size()) + " files that are no readable images",
              "warning");
      say({.kind = "skipped", .values = {{"files", std::move(all)}}});
    }
  }

  void load(Training& training) const {
    const auto copy_into = [](const nn::NamedTensors& targets, const nn::NamedTensors& stored,
                              const std::string& where) {
      if (stored.size() != targets.size())
        throw Error(ErrorCode::corrupt_data, where + " is of another network");
      for (size_t i = 0; i < targets.size(); ++i) {
        const auto& [name, tensor] = stored[i];
        at::Tensor target = targets[i].second;
        if (name != targets[i].first || tensor.sizes() != target.sizes()) {
          throw Error(ErrorCode::corrupt_data, where + " is of another network: \"" + name +
                                                   "\" stands where \"" + targets[i].first +
                                                   "\" is expected");
        }
        target.copy_(tensor);
      }
    };
    if (checkpoint_) {
      const auto read_into = [&](const nn::NamedTensors& targets, const char* file) {
        copy_into(targets, read_tensors(*checkpoint_, file),
                  "\"" + (checkpoint_->folder / file).string() + "\"");
      };
      read_into(training.weights().state(), "model.safetensors");
      read_into(training.optimizer_state(), "optimizer.safetensors");
    } else if (leads_ && goes_on(request_)) {
      copy_into(training.weights().state(), request_.standing->snapshot.weights,
                "the training that this fit goes on with");
      copy_into(training.optimizer_state(), request_.standing->snapshot.optimizer,
                "the training that this fit goes on with");
    }
  }

  // The ranks' line between their GPUs, where they have some.
  std::unique_ptr<comm::Communicator> link_gpus() {
    if (prepared_.plan.machine.device == "cpu" || comm_.size() == 1) return nullptr;
    const std::shared_ptr<comm::Communicator> host(&comm_, [](comm::Communicator*) {});
    if (request_.gpu_link != nullptr)
      return comm::make_gpu_communicator({host, request_.gpu_link}, {.timeout = comm::kAsLongAsItTakes});
    return comm::make_gpu_communicator(
        {host, comm::link_gpus(comm_, prepared_.plan.machine.gpu, {.stop = request_.stop})});
  }

  Result train() {
    say_start();
    const std::unique_ptr<comm::Communicator> linked = link_gpus();
    std::optional<CheckpointWriter> writer;
    if (leads_)
      writer.emplace(paths_.folder,
                     [&](const Snapshot& saved, const std::filesystem::path& path, double seconds) {
                       say({.epoch = epoch_of(saved.state.step),
                            .step = saved.state.step,
                            .kind = saved.checkpoint ? "checkpoint" : "best",
                            .values = {{"path", path.string()}, {"seconds", seconds}, {"best", saved.best}}});
                     });
    Training training(
        {.plan = prepared_.plan,
         .network = prepared_.network,
         .train = prepared_.train,
         .stream = request_.stream,
         .validation = prepared_.validation,
         .test = prepared_.test,
         .train_features = prepared_.train_features,
         .validation_features = prepared_.validation_features,
         .say = leads_ ? [&](io::Event event) { say(std::move(event)); } : std::function<void(io::Event)>(),
         .observer = leads_ ? request_.observer : io::Observer(),
         .writer = writer ? &*writer : nullptr,
         .fingerprint = fingerprint_,
         .state = state_,
         .more_passes = request_.standing != nullptr && request_.standing->more_passes,
         .stop = request_.stop,
         .enough = leads_ ? request_.enough : std::stop_token(),
         .began = began_,
         .comm = linked ? *linked : comm_},
        prepared_.prototype);
    load(training);
    training.share_start();
    const EndReason reason = run_together(training);
    note_end(training, reason);
    if (writer) {
      writer->finish();
      save_end(training, reason);
    }
    leave(training);
    comm_.barrier();  // whoever returns finds the weights there
    return result_of(training, reason);
  }

  // On the command line, one who lost a rank is told how to go on.
  EndReason run_together(Training& training) {
    try {
      return training.run();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled || comm_.size() == 1 || !request_.console) throw;
      throw Error(error.code(), error.message(),
                  "start all ranks again with --output " + paths_.folder.string() +
                      " --resume: the run goes on from its last checkpoint");
    }
  }

  // The weights first: a kill between the two makes the resume repeat the end, with the same bits.
  void save_end(Training& training, EndReason reason) {
    Snapshot end = training.snapshot();
    if (reason != EndReason::stopped) {
      nn::write_safetensors_atomic(paths_.weights(), end.weights);
      end.state.weights_hash = tensors_hash(end.weights);
    }
    if (end.state.step > 0) write_checkpoint(paths_.folder, end);
  }

  // What the end says, and what a resume must know of it to say it again.
  static void note_end(Training& training, EndReason reason) {
    RunState& state = training.state();
    const Score& test = training.test_score();
    if (reason == EndReason::finished || reason == EndReason::patience) state.finished = name_of(reason);
    state.test_accuracy = test.count > 0 ? test.accuracy : -1;
    state.test_loss = test.loss;
  }

  Result result_at(const RunState& state, EndReason reason) const {
    const bool validated = state.validation_accuracy >= 0;
    return {.reason = reason,
            .accuracy = validated ? state.validation_accuracy : kNone,
            .best_accuracy = validated ? state.best_accuracy : kNone,
            .test_accuracy = state.test_accuracy >= 0 ? state.test_accuracy : kNone,
            .loss = validated ? state.validation_loss : kNone,
            .steps = state.step,
            .seconds = state.seconds,
            .output = paths_.folder,
            .weights = paths_.weights()};
  }

  // Of an `end` event: what a checkpoint knows.
  Json values_at(const RunState& state, const std::string& reason, bool scales_loss) const {
    Json values{{"reason", reason}, {"seconds", state.seconds}, {"best_step", state.best_step}};
    if (state.validation_accuracy >= 0)
      values.update({{"accuracy", state.validation_accuracy},
                     {"loss", state.validation_loss},
                     {"best_accuracy", state.best_accuracy}});
    if (state.test_accuracy >= 0)
      values.update({{"test_accuracy", state.test_accuracy}, {"test_loss", state.test_loss}});
    if (scales_loss)
      values.update({{"skipped_steps", state.skipped_steps}, {"loss_scale", state.loss_scale}});
    if (reason != name_of(EndReason::stopped)) values["weights_path"] = paths_.weights().string();
    return values;
  }

  Result result_of(Training& training, EndReason reason) {
    const RunState& state = training.state();
    Result result = result_at(state, reason);
    result.epochs = training.epochs_begun();
    result.images_per_second = training.images_per_second();
    Json values = values_at(state, name_of(reason), prepared_.plan.step.precision == Precision::fp16_mixed);
    values.update({{"images_per_second", result.images_per_second},
                   {"skipped_checkpoints", training.skipped_checkpoints()},
                   {"peak_memory_bytes", device::peak_memory_bytes()}});
    say({.epoch = result.epochs, .step = state.step, .kind = "end", .values = std::move(values)});
    return result;
  }

  const double began_ = now_seconds();
  const TrainingRequest& request_;
  comm::Communicator& comm_;
  bool leads_;
  std::optional<io::RunFolder> folder_;  // rank 0's, with its lock
  Options options_;
  RunState state_;  // where the run begins
  io::RunPaths paths_;
  std::optional<Manifest> manifest_;
  std::optional<Checkpoint> checkpoint_;
  Prepared prepared_;
  Json fingerprint_;
  std::string warning_;
  std::mutex say_mutex_;
  Reporter* reporter_ = nullptr;
};

Result train_as_rank(const TrainingRequest& request, const Options& options, comm::Communicator& comm) {
  try {
    return Run(request, options, comm).make();
  } catch (...) {
    comm.abort(device::error_of(std::current_exception()));
    throw;
  }
}

// A run that goes on does so where it was, unless another place is asked for.
std::vector<int64_t> gpus_of(const TrainingRequest& request, const Options& asked) {
  Options options = asked;
  if (asked.resume && !asked.output.empty()) {
    if (const auto manifest = read_manifest(io::RunPaths{asked.output}.options()))
      options = resumed_options(asked, manifest->options, request.given, Change::allowed);
  }
  options = with_gpus(std::move(options), request.gpus);
  return resolve_placement(options, /*shards=*/1, machine_here(options)).devices;
}

Result train_on_gpus(const TrainingRequest& request, const Options& options,
                     const std::vector<int64_t>& gpus) {
  std::vector<at::Device> devices;
  for (const int64_t gpu : gpus) devices.push_back(open_device("cuda", gpu));
  const auto images = request.images != nullptr ? request.images : std::make_shared<data::ImageShare>();
  Result result;
  on_each_gpu(devices, [&](comm::Communicator& comm, std::shared_ptr<device::GpuLink> link) {
    TrainingRequest own = request;
    own.comm = &comm;
    own.rank_here = comm.rank();
    own.gpu_link = std::move(link);
    own.images = images;
    const Result of_rank = train_as_rank(own, options, comm);
    if (comm.rank() == 0) result = of_rank;
  });
  return result;
}

// A process may train many networks, one after the other and side by side; what one had is for the next, or
// for the rest of the machine.
struct GiveBack {
  ~GiveBack() { device::give_freed_memory_back(); }
};

Result train_over(const TrainingRequest& request, const Options& options) {
  device::keep_freed_memory();
  const GiveBack at_end;
  // Before anything of them is written down.
  for (const std::string& where : {request.folder.string(), options.validation, options.test})
    io::refuse_secrets(where);
  if (request.comm != nullptr) return train_as_rank(request, options, *request.comm);
  if (const std::vector<int64_t> gpus = gpus_of(request, options); gpus.size() > 1)
    return train_on_gpus(request, options, gpus);
  return train_as_rank(request, options, *comm::make_communicator());
}

}  // namespace

std::string stop_notice(bool can_kill) {
  return std::string("stopping: saving a checkpoint") + (can_kill ? "; press Ctrl-C again to kill" : "");
}

Result fit(const TrainingRequest& request, const Options& options) {
  const pool::Worker* worker = pool::Worker::current();
  if (worker == nullptr) return train_over(request, options);
  const EitherStop stop(request.stop, worker->stop_token());
  TrainingRequest here = request;
  here.stop = stop.token();
  const EitherStop enough(request.enough, worker->asked_token());
  here.enough = enough.token();
  if (here.images == nullptr) here.images = worker->shared<data::ImageShare>();
  if (worker->same_process()) {
    if (worker->size() > 1) here.gpus = gpus_of_group(*worker);
    return once_for_group(*worker, "fit", [&] { return train_over(here, options); });
  }
  here.comm = &worker->comm();
  here.ranks_here = worker->size();
  return train_over(here, options);
}

Result fit(const nn::Network& network, const data::Dataset& dataset, const Options& options,
           io::Observer observer) {
  TrainingRequest request;
  request.dataset = dataset;
  request.network = network;
  request.observer = std::move(observer);
  return fit(request, options);
}

Plan plan(const TrainingRequest& request, const Options& options) {
  return prepare(request, options, /*dry=*/true).plan;
}

}  // namespace lockstep::train
