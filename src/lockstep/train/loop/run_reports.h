// What rank 0 tells the log, the views and the observer during training.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/record/event_kinds.h"
#include "lockstep/train/loop/run_end.h"
#include "lockstep/train/loop/score.h"
#include "lockstep/train/loop/training_setup.h"
#include "lockstep/train/update/schedule.h"

namespace lockstep::train {

/// Where one step's time went on one worker, in seconds.
struct StepTimes {
  double queue = 0;
  double forward = 0;
  double backward = 0;
  double waited = 0;           ///< of forward and backward, for other workers at batch norms
  double exchange = 0;         ///< after backward, with the wait for other workers
  double hidden_exchange = 0;  ///< beside backward
  double update = 0;
  double whole = 0;
  std::optional<std::vector<double>> of_workers = {};  ///< of the first worker: record::Step::worker_seconds
};

/// The least and the largest loss of some steps. A NaN is the largest.
struct LossRange {
  double least = record::kNone;
  double largest = record::kNone;
  int64_t least_step = 0;
  int64_t largest_step = 0;  ///< 0: no step yet
  void add(double loss, int64_t step);
};

/// Called by the first worker of each rank between steps, where nothing else is said. Only rank 0 has a log
/// or an observer; the others say nothing. An observer may end the run.
class RunReports {
 public:
  /// All must outlive the object. `state` is where the run stands.
  RunReports(const TrainingSetup& setup, const RunState& state, const Schedule& schedule, RunEnd& end);

  /// An event for the log, the views and the observer.
  template <record::EventKind K>
  void say(const K& values) {
    say(record::event_of(values), Log::write);
  }
  /// level: "info" or "warning"
  void message(const std::string& text, const char* level) {
    say(record::Message{.text = text, .level = level});
  }

  /// In a step, on any thread: a warning for say_warnings().
  void warn_after_step(const std::string& text);
  void say_warnings();

  /// After memory ran out in a step.
  void smaller_pieces();
  /// After a step that was skipped with this factor of the loss.
  void skipped_step(double factor);
  /// After a step. shard_workers: the worker that computed each shard, as far as this rank knows.
  void step(const StepTimes& times, const Score& score, const std::vector<int64_t>& shard_workers);
  /// After a step of a test of learning rates, which is in no log.
  void tested_step();
  /// After an average that took this long; the score of the step before it.
  void average(double seconds, const Score& score);
  /// Time that the training thread spent on checkpoints.
  void add_checkpoint_seconds(double seconds) { checkpoint_seconds_ += seconds; }

  /// Over all steps but the first of this run.
  double images_per_second() const;
  const TimedSteps& timed() const { return timed_; }
  /// Over all calls of fit of this training.
  int64_t epochs_begun() const;

 private:
  enum class Log { write, skip };
  void say(record::Event event, Log log);
  bool is_logged() const;
  void end_if_asked();
  double seconds_left(double rate) const;

  const TrainingSetup& setup_;
  const RunState& state_;
  const Schedule& schedule_;
  RunEnd& end_;
  TimedSteps timed_;
  double unlogged_seconds_ = 0;  // since the last logged step
  int64_t unlogged_images_ = 0;
  double checkpoint_seconds_ = 0;  // since the last logged step
  int64_t page_faults_ = 0;        // of the process, until the last step's end
  LossRange unlogged_losses_;      // since the last logged step
  std::mutex mutex_;
  std::vector<std::string> warnings_;  // of the step under way
};

}  // namespace lockstep::train
