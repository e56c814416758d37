// Scores of held-out and test images during training.
#pragma once

#include <vector>

#include "lockstep/comm/thread_group.h"
#include "lockstep/train/loop/kept_inputs.h"
#include "lockstep/train/loop/score.h"
#include "lockstep/train/loop/worker.h"
#include "lockstep/train/step/answer_counts.h"
#include "lockstep/train/step/hidden_states.h"
#include "lockstep/train/step/shard_result.h"

namespace lockstep::train {

/// Shared by the workers of a process.
class Scoring {
 public:
  struct Network {
    const nn::Instance& prototype;
    const SharedWeights& weights;
  };
  /// All must outlive the object.
  Scoring(const TrainingSetup& setup, comm::ThreadGroup& group, const KeptInputs& kept_inputs,
          Network network);

  /// Every worker of all ranks, between steps: the score over all these images, on the first worker of each
  /// rank. After a stop its count is smaller than the number of images.
  Score score(Worker& worker, const data::ImageSet& images);

 private:
  std::vector<AnswerCounts> no_answers() const;
  void compute(Worker& worker, const data::ImageSet& images);

  const TrainingSetup& setup_;
  comm::ThreadGroup& group_;
  const KeptInputs& kept_inputs_;
  Network network_;
  std::vector<ShardResult> results_;   // of all shards of the images, each written by its worker
  std::vector<AnswerCounts> answers_;  // of each worker; empty if there are too many classes
};

/// Notes the score of the held-out images after state.step in the state. Returns whether it is the best one
/// so far: by accuracy, then by loss. patience_from: LengthPlan::patience_from.
bool note_validation(RunState& state, const Score& score, int64_t patience_from);

}  // namespace lockstep::train
