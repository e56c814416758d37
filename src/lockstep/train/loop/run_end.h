// When and why a run ends, and whether the step under way counts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "lockstep/train/loop/training_setup.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// What the ranks agree on after the shards of a step.
enum class NextMove {
  update,           ///< the step counts
  update_and_save,  ///< the step counts, and a checkpoint was asked for
  compute_again,    ///< memory ran out: the step is computed again, its shards in smaller pieces
  end               ///< the step is dropped, and the run ends
};

/// Shared by the workers of a process. A worker that has a reason to end or to compute again says so before a
/// barrier. One thread agrees with the other ranks, in the barrier or beside backward (bucket_exchange.h).
/// All workers read the result after the barrier.
class RunEnd {
 public:
  explicit RunEnd(const TrainingSetup& setup);

  /// Starts the clock of max_time. seconds_before: of training in earlier attempts.
  void start_clock(double seconds_before);
  /// Seconds of training, all attempts.
  double seconds() const;

  // Before a barrier, on a worker's thread: before it begins a step, between steps, or in a step of which it
  // then leaves out a shard. No other thread may: the ranks may have agreed already that the step under way
  // counts, and its workers would not wait for each other any more (gives_up_step).

  /// The first reason counts, but a stop replaces any other: the test that follows another end is then left
  /// to the resume.
  void end_with(EndReason reason);
  /// --pause-after-step is reached; the first worker of each rank says so. The run ends as stopped. Only an
  /// end that somebody asked for (EndReason::observer, EndReason::request) counts more.
  void pause();
  void end_if_time_is_over();
  /// A checkpoint is to be saved after a step.
  void ask_for_checkpoint() { checkpoint_asked_ = true; }
  /// The step under way is to be computed again.
  void run_out_of_memory() { out_of_memory_ = true; }
  /// Whether some worker of this process has given up the step under way.
  bool gives_up_step() const { return ended_ || out_of_memory_; }

  // In a barrier, one thread of each rank; agree() also while the workers complete their last shards.

  /// What all ranks do next. If the ranks differ, an end counts more than computing again, and computing
  /// again more than an update. A checkpoint that was asked for then waits for the next agreement. Of several
  /// reasons to end, the last in the order of EndReason counts: a stop.
  NextMove agree();
  /// The stream of training data has nothing after step `step`.
  void end_after(int64_t step) { last_step_ = step; }

  // After a barrier.

  /// Whether the ranks have agreed to end. A reason that came after the barrier waits for the next one, so
  /// that no worker leaves alone.
  bool ended() const { return agreed_to_end_; }
  bool computes_again() const { return computes_again_; }
  EndReason reason() const { return reason_; }

  /// Whether this call of fit ends after this step.
  bool is_last(int64_t step) const { return step >= last_step_; }
  /// Whether the whole training ends after this step, as far as is known.
  bool is_end(int64_t step) const;

 private:
  const TrainingSetup& setup_;
  int64_t last_step_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double seconds_before_ = 0;  // of earlier attempts
  std::atomic<bool> ended_{false};
  std::atomic<bool> out_of_memory_{false};
  std::atomic<bool> checkpoint_asked_{false};
  bool computes_again_ = false;
  bool agreed_to_end_ = false;
  std::mutex reason_mutex_;
  EndReason reason_ = EndReason::finished;
  bool pauses_ = false;
};

}  // namespace lockstep::train
