// Checkpoints of a run: written off the training thread into a temporary folder, synced, renamed, then marked DONE. A folder without
// DONE does not exist for readers, so a kill at any moment leaves the last complete one.
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
#include "lockstep/train/limits.h"
#include "lockstep/train/loss_scale.h"

namespace lockstep::train {

/// Where a run stands, beside weights and optimizer state. Everything random is a pure function of seed and step.
struct RunState {
  int64_t step = 0;              ///< optimizer steps done
  double best_accuracy = -1;
  double best_loss = 0;
  int64_t best_step = 0;
  int64_t validations_since_best = 0;
  int64_t validated_step = 0;    ///< of the last validation
  double validation_accuracy = -1;  ///< of the last validation; -1 before the first
  double validation_loss = 0;
  double seconds = 0;            ///< of training, all attempts
  int64_t pieces = 0;            ///< that each shard is computed in, which grow where memory runs out; 0: as --accumulate says
  double loss_scale = LossScale{}.factor;  ///< of the next step, in fp16-mixed; these three are a LossScale
  int64_t loss_scale_steps = 0;
  int64_t skipped_steps = 0;
  std::string finished;          ///< why the run ended for good; empty while it can go on

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("step", self.step, "", between(0, kMostSteps));
    field("best-accuracy", self.best_accuracy, "");
    field("best-loss", self.best_loss, "");
    field("best-step", self.best_step, "", between(0, kMostSteps));
    field("validations-since-best", self.validations_since_best, "", between(0, kMostSteps));
    field("validated-step", self.validated_step, "", between(0, kMostSteps));
    field("validation-accuracy", self.validation_accuracy, "");
    field("validation-loss", self.validation_loss, "");
    field("seconds", self.seconds, "");
    field("pieces", self.pieces, "", between(0, kMostSamples));
    field("loss-scale", self.loss_scale, "");
    field("loss-scale-steps", self.loss_scale_steps, "", between(0, kMostSteps));
    field("skipped-steps", self.skipped_steps, "", between(0, kMostSteps));
    field("finished", self.finished, "");
  };

  LossScale scale() const { return {loss_scale, loss_scale_steps, skipped_steps}; }
  void set_scale(const LossScale& scale) {
    loss_scale = scale.factor;
    loss_scale_steps = scale.steps;
    skipped_steps = scale.skipped;
  }
};

/// Copies, so that training goes on while they are written.
struct Snapshot {
  RunState state;
  Json fingerprint;              ///< options, plan and arithmetic that a resume compares
  nn::NamedTensors weights;
  nn::NamedTensors optimizer;
  bool checkpoint = true;        ///< write a checkpoint folder
  bool best = false;             ///< write best.safetensors
};

struct Checkpoint {
  std::filesystem::path folder;
  RunState state;
  Json fingerprint;
  Json hashes;                   ///< of the tensors in each file
};

/// RUN/checkpoints/step-00000071
std::filesystem::path checkpoint_folder(const std::filesystem::path& run, int64_t step);

/// The latest complete checkpoint; nothing when there is none. Throws corrupt_data when its manifest is damaged.
std::optional<Checkpoint> last_checkpoint(const std::filesystem::path& run);

/// The tensors in one of a checkpoint's files. Throws corrupt_data when they are not those that were written.
nn::NamedTensors read_tensors(const Checkpoint& checkpoint, const std::string& file);

/// What speaks against the weights in RUN/model.safetensors, a sentence: they are not the tensors that the run had at its end, which its last checkpoint knows. Empty where nothing
/// does, and for a run that has not ended for good.
std::string final_weights_doubt(const std::filesystem::path& run, const nn::NamedTensors& weights);

/// Removes what a kill left half-written. Called with the run's lock held.
void remove_unfinished(const std::filesystem::path& run);

/// Writes one checkpoint now, removes older ones once it is complete, and gives its folder.
std::filesystem::path write_checkpoint(const std::filesystem::path& run, const Snapshot& snapshot);

/// One thread that writes snapshots. submit() and others are called by rank 0 only.
class CheckpointWriter {
 public:
  /// `done(snapshot, folder, seconds)` is called on the writer's thread after each.
  using Done = std::function<void(const Snapshot&, const std::filesystem::path&, double)>;
  CheckpointWriter(std::filesystem::path run, Done done);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  bool busy() const;
  /// Waits while an earlier one is being written. Rethrows what an earlier one met.
  void submit(Snapshot snapshot);
  /// Waits for all; rethrows what one met.
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
