// One run's training: the loop that every worker walks, and what the workers share. Read loop.cpp from top to
// bottom.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/thread_group.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/loop/scoring.h"
#include "lockstep/train/loop/kept_inputs.h"
#include "lockstep/train/loop/loss_watch.h"
#include "lockstep/train/loop/rank_balance.h"
#include "lockstep/train/loop/run_end.h"
#include "lockstep/train/loop/run_reports.h"
#include "lockstep/train/loop/saver.h"
#include "lockstep/train/loop/score.h"
#include "lockstep/train/loop/step_errors.h"
#include "lockstep/train/loop/step_shards.h"
#include "lockstep/train/loop/training_setup.h"
#include "lockstep/train/loop/worker.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/step/module_proof.h"
#include "lockstep/train/step/shard_queue.h"
#include "lockstep/train/step/shared_weights.h"
#include "lockstep/train/step/step_groups.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/update/schedule.h"
#include "lockstep/train/update/step_update.h"

namespace lockstep::train {

/// Whether a validation decides which weights are the best and whether patience is over.
enum class ValidationUse { decides, shown };

class Training {
 public:
  /// `prototype` becomes the first worker's instance.
  Training(TrainingSetup setup, nn::Instance prototype);

  SharedWeights& weights() { return weights_; }
  /// What a resume needs beside the weights, as views of the live tensors: the state of the optimizer after
  /// state().step. After run() rank 0 has the state of all ranks; share_start() gives the other ranks what
  /// they need of it.
  nn::NamedTensors optimizer_state() { return update_->state(state_.step); }
  RunState& state() { return state_; }

  /// Gives every rank the weights, optimizer state and state() of rank 0.
  void share_start();

  /// Trains from state() to the end, with one thread per worker. Returns why it ended; state() and weights()
  /// are then of the last complete step. Throws the error of the first worker that failed.
  EndReason run();

  double images_per_second() const { return reports_.images_per_second(); }  ///< without the first step
  const Score& test_score() const { return test_score_; }
  int64_t epochs_begun() const {
    return reports_.epochs_begun();
  }  ///< over all calls of fit of this training
  /// The run is to begin again with another learning rate: the loss has exploded, or a test of rates is over.
  /// Equal on all ranks.
  bool starts_again() const { return state_.starts_again; }
  /// The run is to go on where it stands, with its shards dealt to the ranks by new_loads(). Equal on all
  /// ranks.
  bool deals_again() const { return !new_loads().empty() && !end_.ended() && !starts_again(); }
  const std::vector<int64_t>& new_loads() const { return rank_balance_.better_loads(); }
  const TimedSteps& timed() const { return reports_.timed(); }
  int64_t skipped_checkpoints() const { return saver_.skipped_checkpoints(); }
  /// Where run() has thrown an exception that is no Error (StepErrors::failed_in).
  std::string failed_in() const { return errors_.failed_in(); }
  /// A copy for a checkpoint.
  Snapshot snapshot() { return saver_.snapshot(); }

 private:
  // Every worker, in this order.
  void work(Share thread);
  void walk(Worker& worker);
  bool train_step(Worker& worker);
  std::optional<data::Batch> next_batch(Worker& worker);
  void compute_shards(Worker& worker, const data::Batch& batch);
  int64_t most_together(Worker& worker, int64_t samples) const;
  bool compute_or_give_up(Worker& worker, ShardUnit& unit, const StepWork& work);
  void compute(Worker& worker, ShardUnit& unit, const StepWork& work);
  bool computes_again(Worker& worker);
  StepOutcome update(Worker& worker, const data::Batch& batch, const LossScale& scale);
  void validate(Worker& worker, ValidationUse use = ValidationUse::decides);
  void test(Worker& worker);

  // In a barrier, one thread of each rank.
  void agree_and_synchronize(int64_t step, const std::optional<data::Batch>& batch);
  bool agree();

  // Between steps, the first worker of each rank.
  Score fold_results(int64_t shard_count);
  void balance_ranks(int64_t samples, double seconds);
  bool starts_again_after(double loss) const;
  void watch_loss(const Score& score);
  void note_tested(const Score& score);
  bool note_score(const Score& score, ValidationUse use);
  void report_start();
  void report_step(const Worker& worker, const Score& score, const LossScale& scale);

  Worker make_worker(Share thread);
  std::unique_ptr<ShardRunner> make_runner();
  ShardRunnerOptions runner_options();
  bool validation_is_due(int64_t step) const;
  bool ends_unvalidated(int64_t step) const;
  bool pause_is_due(int64_t step) const;
  bool patience_is_over() const;
  /// Whether all steps of this object are those of a test of learning rates.
  bool tests_rates() const { return schedule_.test.steps > 0; }
  bool scales_loss() const { return setup_.plan.step.precision == Precision::fp16_mixed; }

  TrainingSetup setup_;
  nn::Instance prototype_;
  SharedWeights weights_;
  std::vector<BatchNormInfo> norms_;
  Optimizer optimizer_;
  Schedule schedule_;
  comm::ThreadGroup group_;  // the workers of this process
  RunState state_;
  RunEnd end_;
  RunReports reports_;
  KeptInputs kept_inputs_;
  Scoring scoring_;
  std::unique_ptr<StepUpdate> update_;
  ShardQueue shard_queue_;
  StepGroups step_groups_;
  StepShards step_shards_;
  ModuleTrials module_trials_;
  RankBalance rank_balance_;
  LossWatch loss_watch_;
  StepErrors errors_;
  Saver saver_;
  std::vector<int64_t> thread_ids_;  // of the system, one per worker of this process
  Score test_score_;
};

}  // namespace lockstep::train
