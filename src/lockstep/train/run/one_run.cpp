#include "lockstep/train/run/one_run.h"

#include <limits>
#include <optional>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/share.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/data/datastore.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/memory.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/requests.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/loop/training.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/run/data_loading.h"
#include "lockstep/train/run/gpu_ranks.h"
#include "lockstep/train/run/listing.h"
#include "lockstep/train/run/restore.h"
#include "lockstep/train/run/run_files.h"
#include "lockstep/train/run/run_log.h"
#include "lockstep/train/run/run_requests.h"
#include "lockstep/train/run/run_result.h"
#include "lockstep/train/run/run_start.h"
#include "lockstep/train/run/standing.h"
#include "lockstep/train/run/start_events.h"
#include "lockstep/train/step/first_instance.h"
#include "lockstep/train/step/learning.h"

namespace lockstep::train {
namespace {

class Run {
 public:
  Run(const TrainingRequest& request, const Options& asked, comm::Communicator& comm)
      : request_(request),
        comm_(comm),
        leads_(comm.rank() == 0),
        start_(start_run(request, asked, comm)),
        paths_(start_.paths()),
        stop_(request.stop, wishes_->stop.get_token()) {}

  Result make() {
    if (!start_.state.finished.empty()) return finished_already();
    return leads_ ? make_and_record() : prepare_and_train();
  }

 private:
  Result prepare_and_train() {
    prepare_together();
    take_from_loaders(request_, start_.options, prepared_);
    return train();
  }

  Result make_and_record() {
    const int64_t attempt = record::next_attempt(paths_.folder);
    std::optional<record::RequestWatch> watch;
    const LengthPlan length = start_.manifest ? start_.manifest->plan.length : LengthPlan{};
    if (log_.announce(paths_, status_at(start_.state, attempt, length))) watch.emplace(paths_.folder);
    prepare_together();
    take_from_loaders(request_, start_.options, prepared_);
    if (start_.checkpoint) compare_with_checkpoint();
    if (!start_.manifest) write_files_of_run();
    Views views = make_views(request_, start_.options, paths_, attempt);
    warnings_.push_back(add_earlier(views, paths_.folder));
    log_.open(paths_, status_at(start_.state, attempt, prepared_.plan.length), std::move(views));
    if (!watch) watch.emplace(paths_.folder);
    try {
      // By an event, because only the view that draws on the terminal may write there.
      const std::stop_callback notice(request_.stop, [&] { log_.stopping(stop_notice(request_.console)); });
      begin_watch(*watch, paths_.folder, log_, *wishes_);
      return train();
    } catch (...) {
      watch.reset();
      end_by_error(log_, device::error_of(std::current_exception()), comm_.rank(), failed_in_);
      throw;
    }
  }

  Result finished_already() {
    if (leads_) complete_log();
    return result_at(start_.state, EndReason::already_finished, paths_);
  }

  // A run that was killed after its last checkpoint has no event `end`, or a status that still says running.
  // What only the killed process knew (speed, memory) is left out.
  void complete_log() {
    const int64_t attempt = record::next_attempt(paths_.folder);
    const auto status = record::read_status(paths_.folder);
    const bool says_so = !status || record::is_final(status->state);
    if (attempt == 0 || (says_so && record::end_of_last_attempt(paths_.folder))) return;
    const Plan& plan = start_.manifest->plan;
    const RunState& state = start_.state;
    log_.open(paths_, status_at(state, attempt, plan.length), listener_views(request_));
    const int64_t steps_per_epoch = plan.length.steps_per_epoch;
    const record::End end = end_of(state, state.finished, plan.step, paths_);
    record::Result result = record_of(state, end);
    result.weights_hash = state.result_hash;
    result.epochs = steps_per_epoch > 0 ? divided_up(state.step, steps_per_epoch) : 0;
    log_.say(end, state.step, result.epochs);
    record::write_result(paths_.folder, result);
    log_.finish(record::RunState::ended, end.reason);
  }

  // The other ranks take rank 0's plan: another machine may have other cores, and a trial another result. A
  // preparation may read all samples, of any number.
  void prepare_together() {
    const comm::WaitOptions wait{.timeout = comm::kAsLongAsItTakes};
    Json decided;
    if (leads_) {
      prepare_here(start_.manifest ? &start_.manifest->plan : nullptr);
      decided = {{"plan", lockstep::to_json(prepared_.plan)},
                 {"fingerprint", fingerprint_},
                 {"folder", request_.folder.string()}};
    }
    decided = broadcast_json(comm_, decided, wait);
    if (!leads_) {
      const Plan plan_of_rank_0 = read_plan(decided["plan"]);
      prepare_here(&plan_of_rank_0);
      compare_with_rank_0(comm_, fingerprint_, decided["fingerprint"], request_.folder.string(),
                          decided["folder"].get<std::string>());
    }
    comm_.barrier(wait);
  }

  void prepare_here(const Plan* earlier) {
    prepared_ = prepare(request_, start_.options, /*dry=*/false, earlier);
    if (request_.standing != nullptr) continue_count(prepared_.plan, start_.state);
    fingerprint_ = fingerprint_of(start_.options, prepared_, comm_.size());
  }

  void compare_with_checkpoint() {
    check_same_module(*start_.checkpoint);
    try {
      warnings_.push_back(compare_fingerprints(start_.checkpoint->fingerprint, fingerprint_));
    } catch (Error& error) {
      const std::string changed = changed_files(paths_.listing(), prepared_);
      if (!changed.empty()) error.add_context(changed);
      throw;
    }
  }

  // A resume can name files that changed if they are listed. On a server nothing else tells what they were.
  int64_t most_listed() const {
    constexpr int64_t kMostListed = 5'000;  // a list smaller than a small network's weights
    if (prepared_.train->parallel_reads() > 0) return std::numeric_limits<int64_t>::max();
    return request_.dataset.empty() && request_.stream == nullptr ? kMostListed : 0;
  }

  // A module of a program is known by its name only: a number of parameters would not say what has changed.
  void check_same_module(const Checkpoint& checkpoint) const {
    constexpr const char* kParameters = "parameters";
    if (prepared_.network.spec().is_null() &&
        checkpoint.fingerprint.value(kParameters, Json()) != fingerprint_.value(kParameters, Json()))
      check_module(prepared_.prototype, checkpoint);
  }

  void write_files_of_run() const {
    if (const int64_t most = most_listed(); most > 0) write_listing(paths_.listing(), prepared_, most);
    write_manifest(paths_.options(), start_.options, prepared_);
  }

  Result train() {
    if (leads_)
      say_start(log_, {start_, prepared_, request_.folder.string(), warnings_, comm_.size(), request_.words});
    const std::unique_ptr<comm::Communicator> gpus = link_gpus(request_, comm_, prepared_.plan.machine);
    std::optional<CheckpointWriter> writer;
    if (leads_)
      writer.emplace(paths_.folder, [&](const Snapshot& saved, const std::filesystem::path& path,
                                        double seconds) { say_saved(saved, path, seconds); });
    comm::Communicator& comm = gpus != nullptr ? *gpus : comm_;
    if (start_.state.starts_again) begin_again(start_.state);
    auto training = make_training(comm, writer ? &*writer : nullptr);
    EndReason reason = run_with_hint(*training);
    while (training->deals_again() || (training->starts_again() && !ends_for_others(reason))) {
      if (writer) writer->finish();
      training->deals_again() ? deal_again(training) : begin_again(training->state());
      training = make_training(comm, writer ? &*writer : nullptr);
      reason = run_with_hint(*training);
    }
    // Its weights are of no use to anybody but a resume, which begins again.
    if (training->starts_again()) reason = EndReason::stopped;
    note_end(*training, reason);
    if (writer) {
      writer->finish();
      save_end(*training, reason);
    }
    if (leads_ && request_.standing != nullptr) *request_.standing = standing_after(*training, paths_.folder);
    comm_.barrier();  // when a rank returns, the weights are written
    return result_of(*training, reason);
  }

  // An observer's answer is given once. What is asked by other means holds for a run that begins again, too.
  static bool ends_for_others(EndReason reason) {
    return reason == EndReason::stopped || reason == EndReason::observer;
  }

  std::unique_ptr<Training> make_training(comm::Communicator& comm, CheckpointWriter* writer) {
    auto training = std::make_unique<Training>(setup(comm, writer), prepared_.prototype);
    if (moved_) {
      restore(*training, *moved_);
    } else if (start_.checkpoint) {
      restore(*training, *start_.checkpoint);
    } else if (leads_ && continues_standing(request_) && !has_begun_again_) {
      restore(*training, *request_.standing);
    }
    training->share_start();
    return training;
  }

  // From the first weights, as if nothing had been trained. A checkpoint of before is of the same run: a
  // resume from it comes to the same end.
  void begin_again(const RunState& before) {
    start_.checkpoint.reset();
    moved_.reset();
    has_begun_again_ = true;
    timed_ = {};
    log_.begin_again();
    std::error_code none;
    if (leads_) std::filesystem::remove(paths_.confusion(), none);
    start_.state = {.seconds = before.seconds, .restarts = before.restarts, .found_rate = before.found_rate};
    prepared_.prototype = first_instance(prepared_.network, prepared_.plan.network, prepared_.plan.step.seed);
  }

  // The run goes on where it stands, with other shards on each rank. The state holds all weights, so no file
  // is read for them.
  void deal_again(std::unique_ptr<Training>& training) {
    const std::vector<int64_t> loads = training->new_loads();
    start_.state = training->state();
    timed_ = training->timed();
    start_.checkpoint.reset();
    if (leads_) moved_ = Standing{training->snapshot(), paths_.folder};
    training.reset();
    prepared_.plan.machine.rank_loads = loads;
    prepared_.prototype =
        trainable_instance(prepared_.network, prepared_.plan.network, prepared_.plan.step.seed);
  }

  TrainingSetup setup(comm::Communicator& comm, CheckpointWriter* writer) {
    return {.plan = prepared_.plan,
            .network = prepared_.network,
            .train = prepared_.train,
            .stream = request_.stream,
            .validation = prepared_.validation,
            .test = prepared_.test,
            .train_features = prepared_.train_features,
            .validation_features = prepared_.validation_features,
            .kept_features = kept_features_,
            .say = leads_ ? [&](record::Event event) { log_.say(std::move(event)); }
                          : std::function<void(record::Event)>(),
            .observer = leads_ ? request_.observer : record::Observer(),
            .writer = writer,
            .fingerprint = fingerprint_,
            .state = start_.state,
            .more_passes = request_.standing != nullptr && request_.standing->more_passes,
            .moves_shards = start_.options.worker_load.empty(),
            .timing = start_.options.timing,
            .timed = timed_,
            .stop = stop_.token(),
            .wishes = wishes_,
            .enough = leads_ ? request_.enough : std::stop_token(),
            .began = began_,
            .comm = comm};
  }

  // On the checkpoint writer's thread.
  void say_saved(const Snapshot& saved, const std::filesystem::path& path, double seconds) {
    const int64_t step = saved.state.step, epoch = epoch_of_step(prepared_.plan.length, step);
    const record::Saved values{.path = path.string(), .seconds = seconds, .best = saved.best};
    saved.checkpoint ? log_.say(record::SavedCheckpoint{values}, step, epoch)
                     : log_.say(record::SavedBest{values}, step, epoch);
  }

  // If a rank is lost, the user of the command line is told how to continue. A run that has begun keeps its
  // files and its --on-bad-sample.
  EndReason run_with_hint(Training& training) {
    try {
      return training.run();
    } catch (const data::BadImage& error) {
      if (training.state().step == 0) throw;
      Error told(error.code(), error.message(),
                 "resume with a readable image in its place, or begin a new run without it or with "
                 "--on-bad-sample skip");
      for (const std::string& line : error.context()) told.add_context(line);
      throw told;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled || comm_.size() == 1 || !request_.console) throw;
      throw Error(error.code(), error.message(),
                  "start all ranks again with --output " + shell_word(paths_.folder.string()) +
                      " --resume: the run continues from its last checkpoint");
    } catch (...) {
      failed_in_ = training.failed_in();
      throw;
    }
  }

  // A resume of a finished run repeats its end from this.
  static void note_end(Training& training, EndReason reason) {
    RunState& state = training.state();
    const Score& test = training.test_score();
    if (reason == EndReason::finished || reason == EndReason::patience)
      state.finished = describe_detail::as_text(reason);
    state.test_accuracy = test.count > 0 ? test.accuracy : -1;
    state.test_loss = test.loss;
  }

  // The weights are written first: after a kill between the two, a resume repeats the end with the same bits.
  void save_end(Training& training, EndReason reason) const {
    wishes_->check();
    Snapshot end = training.snapshot();
    end.state.result_hash = as_hex(training.weights().hash());
    if (reason != EndReason::stopped) {
      nn::write_safetensors_atomic(paths_.weights(), end.weights);
      end.state.weights_hash = tensors_hash(end.weights);
    }
    write_confusion(paths_.folder, end);
    if (end.state.step > 0) write_checkpoint(paths_.folder, end);
  }

  Result result_of(Training& training, EndReason reason) {
    const RunState& state = training.state();
    Result result = result_at(state, reason, paths_);
    result.epochs = training.epochs_begun();
    result.images_per_second = training.images_per_second();
    if (leads_) record_end(training, result);
    return result;
  }

  void record_end(Training& training, const Result& result) {
    const RunState& state = training.state();
    record::End end = end_of(state, describe_detail::as_text(result.reason), prepared_.plan.step, paths_);
    end.images_per_second = result.images_per_second;
    end.skipped_checkpoints = training.skipped_checkpoints();
    end.peak_memory_bytes = device::peak_memory_bytes();
    log_.say(end, state.step, result.epochs);
    record::Result recorded = record_of(state, end);
    recorded.epochs = result.epochs;
    recorded.weights_hash = as_hex(training.weights().hash());
    recorded.started = began_;
    record::write_result(paths_.folder, recorded);
    const bool stopped = result.reason == EndReason::stopped;
    log_.finish(stopped ? record::RunState::stopped : record::RunState::ended,
                reason_of_end(result.reason, *wishes_, request_.console));
  }

  const double began_ = now_seconds();
  const TrainingRequest& request_;
  comm::Communicator& comm_;
  const bool leads_;
  RunStart start_;
  const record::RunPaths paths_;
  Prepared prepared_;
  Json fingerprint_;
  const std::shared_ptr<KeptFeatures> kept_features_ = std::make_shared<KeptFeatures>();
  std::optional<Standing> moved_;  // where the run stood when its shards were dealt again; rank 0's
  bool has_begun_again_ = false;
  std::string failed_in_;  // for the log, of an exception that is no Error
  TimedSteps timed_;
  std::vector<std::string> warnings_;  // for the user, of what earlier attempts have left; may be empty texts
  RunLog log_;
  const std::shared_ptr<Wishes> wishes_ = std::make_shared<Wishes>();
  const EitherStop stop_;
};

}  // namespace

Result train_as_rank(const TrainingRequest& request, const Options& options, comm::Communicator& comm) {
  try {
    return Run(request, options, comm).make();
  } catch (...) {
    comm.abort(device::error_of(std::current_exception()));
    throw;
  }
}

}  // namespace lockstep::train
