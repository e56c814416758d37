// What one worker of the training loop has for itself.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/loop/run_reports.h"
#include "lockstep/train/loop/training_setup.h"
#include "lockstep/train/step/pass_size.h"
#include "lockstep/train/step/pass_threads.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {

/// Whether mini-batches come with their images. Kept features and images on a GPU replace them.
enum class BatchImages { wanted, kept };

/// Belongs to one thread.
struct Worker {
  struct Parts {
    nn::Instance instance;  ///< its parameters alias `weights`
    const SharedWeights& weights;
    const std::vector<BatchNormInfo>& norms;
    ShardRunnerOptions options;
    PassThreads::MakeRunner make_runner;  ///< another runner of this worker
    BatchImages images = BatchImages::wanted;
  };
  /// `start` is where the training stands. `own_thread` counts the workers of this process. Starts to read
  /// mini-batches ahead, unless they are streamed.
  Worker(const TrainingSetup& training_setup, const RunState& start, Share own_thread, Parts parts);

  /// This worker's part of the next mini-batch; none after the last one or when stopped.
  std::optional<data::Batch> next_batch();

  bool is_first() const { return thread.rank == 0; }

  const TrainingSetup& setup;
  Share thread;  ///< of the workers of its process
  Share all;     ///< of the workers of all ranks
  ShardRunner runner;
  PassThreads pass_threads;
  PassSize pass_size;
  std::unique_ptr<data::MiniBatchQueue> queue = {};  ///< null if mini-batches are streamed
  int64_t step;                                      ///< steps done, equal on all workers
  StepTimes times = {};                              ///< of this step
};

}  // namespace lockstep::train
