// One run's training: the loop that every worker walks, and what the workers share. Read loop.cpp top to
// bottom.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/data/image_set.h"
#include "lockstep/io/event.h"
#include "lockstep/train/update/averaging.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/step/hidden_states.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/update/exchange.h"
#include "lockstep/train/cache/features.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/loop/reporter.h"
#include "lockstep/train/cache/resident_images.h"
#include "lockstep/train/update/schedule.h"
#include "lockstep/train/step/shard_queue.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// Over the shards of a mini-batch, folded in the shard tree, or of a whole dataset, added in order.
struct Score {
  double loss = 0;      ///< mean
  double accuracy = 0;  ///< share of samples
  int64_t count = 0;
};

/// Everything a run needs, resolved; see fit.cpp for how it is made.
struct TrainingSetup {
  const Plan& plan;
  const nn::Network& network;
  std::shared_ptr<const data::ImageSet> train;
  std::shared_ptr<data::MiniBatchStream> stream = {};     ///< in its place where plan.data.streamed
  std::shared_ptr<const data::ImageSet> validation = {};  ///< may be null
  std::shared_ptr<const data::ImageSet> test = {};        ///< may be null
  FeatureStorage train_features = {};                     ///< where plan.network.keep_features
  FeatureStorage validation_features = {};
  std::function<void(io::Event)> say = {};  ///< to the log and the views; may be empty
  io::Observer observer = {};               ///< may be empty
  CheckpointWriter* writer = nullptr;       ///< null: nothing is saved
  Json fingerprint = {};                    ///< for checkpoints
  RunState state = {};                      ///< where the run begins, equal on all ranks
  bool more_passes = false;                 ///< Standing::more_passes
  std::stop_token stop = {};
  std::stop_token enough = {};   ///< TrainingRequest::enough; rank 0's
  double began = now_seconds();  ///< when the run was asked for
  comm::Communicator& comm;      ///< of the ranks that train together; say, observer and writer are rank 0's
};

/// Where one step's time went on one worker, in seconds.
struct StepTimes {
  double queue = 0;
  double forward = 0;
  double backward = 0;
  double exchange = 0;         ///< after backward: waiting for the others included
  double hidden_exchange = 0;  ///< beside backward
  double update = 0;
  double whole = 0;
};

class Training {
 public:
  /// `prototype` becomes rank 0's instance.
  Training(TrainingSetup setup, nn::Instance prototype);

  SharedWeights& weights() { return weights_; }
  /// What a resume needs beside the weights, as views of the live tensors: the optimizer's state; state()
  /// says of which step. What other ranks have of it is there for rank 0 after run(), and comes from rank 0
  /// in share_start().
  nn::NamedTensors optimizer_state();
  RunState& state() { return state_; }

  /// Gives every rank the weights, optimizer state and state() of rank 0.
  void share_start();

  /// Trains from state() to the end, with one thread per worker. Returns why it ended; state() and weights()
  /// are then of the last complete step. Throws what the first failing worker met.
  EndReason run();

  double images_per_second() const;  ///< over all steps but the first of this run()
  const Score& test_score() const { return test_score_; }
  int64_t epochs_begun() const;  ///< over all calls of fit of this training
  int64_t skipped_checkpoints() const { return skipped_checkpoints_; }
  Snapshot snapshot(bool checkpoint, bool best);

 private:
  struct Worker;

  ShardRunnerOptions options_of_runners();

  // The loop, in the order in which it happens: every worker.
  void check_feature_files();
  void compute_features(Worker& worker);
  const Features* features_of(const data::ImageSet& images) const;
  void take_resident_memory();
  void load_resident(Worker& worker);
  const ResidentImages* resident_of(const data::ImageSet& images) const;
  static data::Shard with_features(data::Shard shard, const Features* features, ShardRunner& runner);
  void walk(Worker& worker);
  bool train_step(Worker& worker);
  void train_part(Worker& worker, const data::Batch& batch);
  bool begins_anew(Worker& worker);
  void train_shards(Worker& worker, const std::vector<data::Shard>& shards, const data::Batch& batch);
  void train_node(Worker& worker, const std::vector<data::Shard>& shards, const data::Batch& batch,
                  std::span<ShardResult> results);
  void average(Worker& worker, const Score& score);
  Score score(Worker& worker, const data::ImageSet& images);
  void validate(Worker& worker);
  bool scales_loss() const { return setup_.plan.step.precision == Precision::fp16_mixed; }
  bool is_last(int64_t step) const { return step >= last_step_; }
  bool is_end(int64_t step) const;
  bool is_due(int64_t step, int64_t every) const;
  bool validation_is_due(int64_t step) const;
  void end_with(EndReason reason);
  void end_after(int64_t step);
  bool agree();
  bool may_split(int64_t samples) const;
  Error step_error(const Error& error, int64_t steps_done, const std::vector<data::Shard>& shards,
                   int64_t shard_count) const;

  // The first worker of each rank, between steps.
  Score fold_step(int64_t shard_count);
  void report_start();
  void check_losses(int64_t shard_count) const;
  void report_split();
  void report_skip(double factor);
  void report_features_so_far(int64_t done, double seconds);
  void report_features(double seconds);
  void report_cache_failure();
  void report_step(const StepTimes& times, const Score& score);
  void report_average(double seconds, const Score& score);
  void note_validation(const Score& score);
  void save_if_due();
  void collect_state();
  void say(const char* kind, Json values, bool log = true);

  TrainingSetup setup_;
  nn::Instance prototype_;
  SharedWeights weights_;
  std::vector<BatchNormInfo> norms_;
  Optimizer optimizer_;
  Schedule schedule_;
  comm::ThreadGroup group_;               // the workers of this process
  Exchange exchange_;                     // of the tree
  std::unique_ptr<Averaging> averaging_;  // null: the tree
  RunState state_;
  int64_t last_step_;              // after which the run ends; of a stream with its last mini-batch
  std::deque<Features> features_;  // of frozen layers, where they are kept: training data, held-out data
  std::vector<ResidentImages> resident_;  // training data and held-out data, where they lie on the GPU
  HiddenStates hidden_states_;            // recurrent state of the training data's streams

  ShardQueue shard_queue_;
  std::vector<ShardResult> shard_results_;  // of the step's shards, each written by its worker
  std::vector<int64_t> owners_;             // the worker that each shard is first given to
  std::vector<int64_t>
      shard_workers_;  // who computes the step's shards, as far as this rank knows; else who owns them
  std::vector<int64_t> computed_by_;             // the same, of the last step
  std::vector<ShardResult> evaluation_results_;  // of all shards of a dataset
  std::vector<int64_t> thread_ids_;
  std::atomic<bool> ended_{false};  // set before a barrier, read after it
  std::atomic<bool> out_of_memory_{
      false};                   // and the step can be split; set before a barrier, read and taken back in it
  bool splitting_ = false;      // as the ranks agreed in the last meeting, read after it
  bool split_unsaved_ = false;  // no checkpoint has it yet
  std::mutex reason_mutex_;
  EndReason reason_ = EndReason::finished;
  Score test_score_;
  bool best_pending_ = false;
  bool said_cache_failure_ = false;
  int64_t skipped_checkpoints_ = 0;
  int64_t steps_here_ = 0;    // of this run()
  double timed_seconds_ = 0;  // all steps but the first
  int64_t timed_images_ = 0;
  double unlogged_seconds_ = 0;  // since the last logged step
  int64_t unlogged_images_ = 0;
  double checkpoint_seconds_ = 0;  // of the training thread, since the last logged step
  double started_ = 0;
  int64_t page_faults_ = 0;  // of the process, until the last step's end
};

}  // namespace lockstep::train
