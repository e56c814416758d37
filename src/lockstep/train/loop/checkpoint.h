// Checkpoints of a run. A thread of its own writes them into a temporary folder, syncs and renames it, and
// then adds the file DONE. A folder without DONE does not exist for readers, so after a kill at any moment
// the last complete checkpoint is there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/bounded_queue.h"
#include "lockstep/base/describe.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/loop/loss_watch.h"
#include "lockstep/train/options/limits.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/loss_scale.h"

namespace lockstep::train {

/// The state of a run beside weights and optimizer state. Everything random is a pure function of seed and
/// step.
struct RunState {
  int64_t step = 0;  ///< optimizer steps done
  double best_accuracy = -1;
  double best_loss = 0;
  int64_t best_step = 0;
  int64_t first_step = 0;     ///< Plan::first_step
  int64_t first_epoch = 0;    ///< Plan::first_epoch
  int64_t averaged_step = 0;  ///< the last step after which all replicas became their average
  int64_t validations_since_best = 0;
  int64_t validated_step = 0;       ///< of the last validation
  double validation_accuracy = -1;  ///< of the last validation; -1 before the first
  double validation_loss = 0;
  double seconds = 0;  ///< of training, all attempts
  int64_t pieces = 0;  ///< of each shard; doubled when memory runs out; 0: as --accumulate says
  double loss_scale = LossScale{}.factor;  ///< this and the next two are the LossScale of the next step
  int64_t loss_scale_steps = 0;
  int64_t skipped_steps = 0;
  WatchedLoss watched_loss{};  ///< see LossWatch
  int64_t restarts = 0;        ///< how often the run began again with a tenth of the rate
  bool starts_again = false;   ///< it has to, from the first step; restarts and found_rate are then those of
                               ///< the next beginning
  std::vector<double> tested_losses{};  ///< of the steps of a test of learning rates that is under way
  double found_rate = 0;                ///< by that test; 0: none yet
  std::string finished{};               ///< why the run ended for good; empty while it can go on
  double test_accuracy = -1;            ///< at the end; -1 before that, and without test data
  double test_loss = 0;
  std::string weights_hash{};       ///< of the tensors in model.safetensors; empty if there is no such file
  std::string best_weights_hash{};  ///< of those in best.safetensors
  std::string result_hash{};        ///< record::Result::weights_hash, in the checkpoint at the end

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("step", self.step, "", between(0, kMostSteps));
    field("best-accuracy", self.best_accuracy, "");
    field("best-loss", self.best_loss, "");
    field("best-step", self.best_step, "", between(0, kMostSteps));
    field("first-step", self.first_step, "", between(0, kMostSteps));
    field("first-epoch", self.first_epoch, "", between(0, kMostSteps));
    field("averaged-step", self.averaged_step, "", between(0, kMostSteps));
    field("validations-since-best", self.validations_since_best, "", between(0, kMostSteps));
    field("validated-step", self.validated_step, "", between(0, kMostSteps));
    field("validation-accuracy", self.validation_accuracy, "");
    field("validation-loss", self.validation_loss, "");
    field("seconds", self.seconds, "");
    field("pieces", self.pieces, "", between(0, kMostSamples));
    field("loss-scale", self.loss_scale, "");
    field("loss-scale-steps", self.loss_scale_steps, "", between(0, kMostSteps));
    field("skipped-steps", self.skipped_steps, "", between(0, kMostSteps));
    field("first-loss", self.watched_loss.first, "");
    field("largest-loss", self.watched_loss.largest, "");
    field("earlier-watched-sum", self.watched_loss.earlier_sum, "");
    field("watched-sum", self.watched_loss.sum, "");
    field("watched-windows", self.watched_loss.windows, "", between(0, kMostSteps));
    field("loss-warnings", self.watched_loss.warnings, "", between(0, kMostSteps));
    field("restarts", self.restarts, "", between(0, 1));
    field("starts-again", self.starts_again, "");
    field("tested-losses", self.tested_losses, "");
    field("found-rate", self.found_rate, "");
    field("finished", self.finished, "");
    field("test-accuracy", self.test_accuracy, "");
    field("test-loss", self.test_loss, "");
    field("weights-hash", self.weights_hash, "");
    field("best-weights-hash", self.best_weights_hash, "");
    field("result-hash", self.result_hash, "");
  };

  /// Whether the next step is one of a test of learning rates.
  bool tests_rates(const UpdatePlan& plan) const { return plan.rate_test_steps > 0 && found_rate == 0; }

  LossScale scale() const { return {loss_scale, loss_scale_steps, skipped_steps}; }
  void set_scale(const LossScale& scale) {
    loss_scale = scale.factor;
    loss_scale_steps = scale.steps;
    skipped_steps = scale.skipped;
  }
};

/// Copies, so that training continues while they are written.
struct Snapshot {
  RunState state;
  Json fingerprint;  ///< options, plan and arithmetic that a resume compares
  nn::NamedTensors weights;
  nn::NamedTensors optimizer;
  bool checkpoint = true;      ///< write a checkpoint folder
  bool best = false;           ///< write best.safetensors
  std::string confusion = {};  ///< confusion.csv, to write it; may be empty
};

/// The state of a training of several calls of fit, each of which continues where the previous one ended
/// (TrainingRequest::standing).
struct Standing {
  Snapshot snapshot;             ///< at the end of the last call; without weights before the first
  std::filesystem::path output;  ///< the run folder of all calls
  bool more_passes = false;      ///< set by the caller if another call follows the next one: its last step is
                                 ///< then like any other, without an average of its own
  bool begun() const { return !snapshot.weights.empty(); }
};

struct Checkpoint {
  std::filesystem::path folder;
  RunState state;
  Json fingerprint;
  Json hashes;  ///< of the tensors in each file
};

/// RUN/checkpoints/step-00000071
std::filesystem::path checkpoint_folder(const std::filesystem::path& run, int64_t step);

/// The latest complete checkpoint, if there is one. Throws corrupt_data if its manifest is damaged.
std::optional<Checkpoint> last_checkpoint(const std::filesystem::path& run);

/// The latest complete checkpoint of a run that ended, was resumed and has not ended again: it is newer than
/// model.safetensors. Nothing otherwise. Throws like last_checkpoint.
std::optional<Checkpoint> checkpoint_after_end(const std::filesystem::path& run);

/// The tensors in one of a checkpoint's files. Throws corrupt_data if they are not those that were written.
nn::NamedTensors read_tensors(const Checkpoint& checkpoint, const std::string& file);

/// The hash that identifies tensors in a checkpoint's manifest and state. The tensors are on the CPU.
std::string tensors_hash(const nn::NamedTensors& tensors);

/// A sentence that says that the tensors of a weights file are not those that the run saved there, by the
/// hash in its last checkpoint, or that the run has come further since. Empty if they are the run's, or if it
/// is not known.
///   file  RUN/model.safetensors or best.safetensors of a run whose last attempt has ended in any way
///   (otherwise the file may be newer than the last checkpoint), or a file of a checkpoint
std::string weights_doubt(const std::filesystem::path& file, const nn::NamedTensors& weights);

/// Removes half-written files that a kill has left. The caller holds the run's lock.
void remove_unfinished(const std::filesystem::path& run);

/// Writes a checkpoint now, removes older ones when it is complete, and returns its folder.
std::filesystem::path write_checkpoint(const std::filesystem::path& run, const Snapshot& snapshot);

/// Writes the snapshot's confusion.csv, if it has one. Before a checkpoint: a run that is killed between the
/// two makes the validation again.
void write_confusion(const std::filesystem::path& run, const Snapshot& snapshot);

/// A thread that writes snapshots. Only rank 0 calls its functions.
class CheckpointWriter {
 public:
  /// `done(snapshot, folder, seconds)` is called on the writer's thread after each snapshot.
  using Done = std::function<void(const Snapshot&, const std::filesystem::path&, double)>;
  CheckpointWriter(std::filesystem::path run, Done done);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  bool busy() const;
  /// Waits while an earlier snapshot is being written. Throws the error of an earlier one.
  void submit(Snapshot snapshot);
  /// Waits for all snapshots. Throws the error of an earlier one.
  void finish();

 private:
  void work();
  void rethrow();

  std::filesystem::path run_;
  Done done_;
  BoundedQueue<Snapshot> queue_{1};
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  int64_t pending_ = 0;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace lockstep::train
