// A run folder for a custom loop: events, curves, checkpoints, resume, requests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/custom/built_model.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/shard_sums.h"

namespace lockstep::train {

struct RunRecordOptions {
  std::filesystem::path output = {};  ///< the run folder; empty: runs/NAME-001 and so on
  bool resume = false;                ///< continue the run in `output`; begin it if it has no checkpoint yet
  std::string name = "run";           ///< for a folder that is not named
  std::string data = {};              ///< the training data, for readers of the record
  int64_t checkpoint_every = 0;  ///< steps; 0: at each end of an epoch. A loop with StreamStates, which a
                                 ///< checkpoint does not hold, needs 0 and a pass for each epoch
};

/// The run of a custom loop, on each rank; rank 0 writes. record_run makes it.
///
///   train::record_run(worker, model, &sgdm, {.output = "runs/mine", .resume = true}, [&](RunRecord& run) {
///     for (const auto& batch : data::MiniBatchQueue(images, worker.share(), run.from_here(options))) {
///       const auto whole = ...;  // loss_and_gradients, exchange
///       sgdm.step(whole.gradients);
///       if (!run.step(batch, whole)) break;
///     }
///   });
class RunRecord {
 public:
  /// The queue's options with the start at which the run continues. Throws invalid_option at a resume if the
  /// seed, the mini-batch, the shards or the order are not those that the run began with. Every rank calls
  /// it, once.
  data::QueueOptions from_here(data::QueueOptions options);

  /// After the update of a mini-batch: logs it, and saves a checkpoint when one is due. False if the run ends
  /// here, because a stop or an early finish was requested (lockstep stop), or the task was cancelled. Every
  /// rank calls it.
  bool step(const data::Batch& batch, const MiniBatchSums& whole);
  bool step(const data::Batch& batch, const MiniBatchSums& whole, double learning_rate);

  /// Logs a validation after the last step. Rank 0's values count.
  void validation(double accuracy, double loss = std::numeric_limits<double>::quiet_NaN());
  /// Logs a text.
  void message(const std::string& text);

  /// Steps done, of all attempts.
  int64_t steps() const;
  /// The run folder; on other ranks than 0 also where it cannot be seen.
  const std::filesystem::path& folder() const;

  struct Position;  ///< this and State are for run_record.cpp
  struct State;
  explicit RunRecord(State& state) : state_(state) {}

 private:
  State& state_;
};

/// Opens the run folder, gives the model and the updater the values of its last checkpoint at a resume, runs
/// the loop, and records how it ended: after a stop with a checkpoint, otherwise with model.safetensors and
/// the event `end`; if the loop throws, with the event `failed`. A cancellation (Future::cancel, Pool::close)
/// that throws in the loop is a stop too, with a checkpoint if the last update was followed by step(). The
/// same bits follow on any number of workers, as the random layers draw by the step. Every rank calls it with
/// the same arguments; an error on one rank breaks the group. `updater` may be null, for a rule without
/// state. Throws as fit does.
void record_run(pool::Worker& worker, const BuiltModel& model, LearnableUpdater* updater,
                const RunRecordOptions& options, const std::function<void(RunRecord&)>& loop);

}  // namespace lockstep::train
