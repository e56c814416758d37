// What a run saves, and when: copies of the weights and of the state for the thread that writes them.
#pragma once

#include <cstdint>

#include "lockstep/base/class_figures.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/run_end.h"
#include "lockstep/train/loop/run_reports.h"
#include "lockstep/train/loop/training_setup.h"
#include "lockstep/train/step/shared_weights.h"
#include "lockstep/train/update/step_update.h"

namespace lockstep::train {

/// Called by the first worker of each rank, between steps: the weights do not change before it reaches the
/// next barrier. Only rank 0 writes.
class Saver {
 public:
  struct Parts {
    const SharedWeights& weights;
    StepUpdate& update;
    RunState& state;
    const RunEnd& end;
    RunReports& reports;
  };
  /// All must outlive the object.
  Saver(const TrainingSetup& setup, Parts parts);

  /// The last validation gave the best score so far, or not.
  void note_validation(bool best) { best_pending_ = best; }
  /// What the next snapshot is to write into confusion.csv; may be empty.
  void keep(const ConfusionMatrix& confusion) { confusion_ = confusion; }
  /// The number of pieces of a shard has changed, which no checkpoint has yet.
  void note_pieces() { pieces_unsaved_ = true; }
  /// A checkpoint was asked for; all ranks know it.
  void note_request() { asked_ = true; }

  /// After a step and its validation: compares the ranks' weights and saves what is due.
  void save_if_due();

  /// A copy for a checkpoint now.
  Snapshot snapshot() { return copied({.checkpoint = true}); }
  /// Checkpoints that were due while an earlier one was still being written.
  int64_t skipped_checkpoints() const { return skipped_checkpoints_; }

 private:
  struct Use {
    bool checkpoint = false;
    bool best = false;
  };
  Snapshot copied(Use use);
  void report_hash();

  const TrainingSetup& setup_;
  Parts parts_;
  bool best_pending_ = false;
  ConfusionMatrix confusion_;  // not written yet
  bool pieces_unsaved_ = false;
  bool asked_ = false;
  int64_t skipped_checkpoints_ = 0;
};

}  // namespace lockstep::train
