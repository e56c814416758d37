#include "lockstep/train/loop/scoring.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "lockstep/data/order.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/evaluation_batches.h"

namespace lockstep::train {

Scoring::Scoring(const TrainingSetup& setup, comm::ThreadGroup& group, const KeptInputs& kept_inputs,
                 Network network)
    : setup_(setup), group_(group), kept_inputs_(kept_inputs), network_(network) {}

Score Scoring::score(Worker& worker, const data::ImageSet& images) {
  const StepPlan& plan = setup_.plan.step;
  const int64_t batches = data::steps_per_epoch(images.size(), plan.mini_batch_size);
  if (worker.is_first()) {
    results_.assign(static_cast<size_t>(batches * plan.shards), {});
    answers_ = no_answers();
  }
  worker.runner.begin_evaluation();
  group_.barrier();
  compute(worker, images);
  group_.barrier();
  if (!worker.is_first()) return {};  // the first may already be filling the next evaluation's results
  reduce_results(results_, static_cast<int64_t>(results_.size()), 1, {}, setup_.comm);
  ShardResult sum;
  for (const ShardResult& result : results_) {
    sum.loss += result.loss;
    sum.correct += result.correct;
    sum.count += result.count;
    sum.targets += result.targets;
  }
  Score score = score_of(sum);
  if (!answers_.empty()) score.confusion = counts_of_all(answers_, setup_.comm);
  return score;
}

std::vector<AnswerCounts> Scoring::no_answers() const {
  const size_t classes = setup_.plan.data.classes.size();
  std::vector<AnswerCounts> answers;
  if (classes == 0 || classes > kMostInMatrix) return answers;
  const at::Device device = open_device(setup_.plan.machine.device, setup_.plan.machine.gpu);
  for (int64_t i = 0; i < group_.size(); ++i) answers.emplace_back(static_cast<int64_t>(classes), device);
  return answers;
}

void Scoring::compute(Worker& worker, const data::ImageSet& images) {
  const Plan& plan = setup_.plan;
  const std::shared_ptr<const data::ImageSet> unowned(&images, [](const data::ImageSet*) {});
  data::MiniBatchQueue queue(unowned, worker.all,
                             {.mini_batch_size = plan.step.mini_batch_size,
                              .shards = plan.step.shards,
                              .ranks = setup_.comm.size(),
                              .rank_loads = plan.machine.rank_loads,
                              .order = {.shuffle = data::Shuffle::never},
                              .least_time_steps = plan.data.least_time_steps,
                              .pinned = open_device(plan.machine.device, plan.machine.gpu).is_cuda(),
                              .images_wanted = kept_inputs_.batch_images(images) == BatchImages::wanted});
  HiddenStates hidden_states = make_hidden_states(plan, network_.prototype, network_.weights.flat());
  EvaluationBatches batches(worker.runner, plan, plan.machine.device);
  AnswerCounts* const answers =
      answers_.empty() ? nullptr : &answers_[static_cast<size_t>(worker.thread.rank)];
  while (auto batch = queue.next(setup_.stop)) {
    kept_inputs_.add_images(images, batch->shards);
    batches.for_each(batch->shards, [&](data::Shard shard, int64_t shards) {
      if (setup_.stop.stop_requested()) return;
      ShardResult* const results =
          &results_[static_cast<size_t>(batch->cursor.step * plan.step.shards + shard.index)];
      if (shards > 1) {
        std::ranges::move(worker.runner.evaluate_together(shard, shards, answers), results);
        return;
      }
      kept_inputs_.add_features(images, shard, worker.runner);
      *results = worker.runner.evaluate(shard, nullptr, hidden_states.rows(shard), answers);
      hidden_states.put(shard, std::exchange(results->hidden_state, {}));
    });
    hidden_states.commit();
  }
}

bool note_validation(RunState& state, const Score& score, int64_t patience_from) {
  const bool sane = std::isfinite(score.loss);
  const bool risen = sane && score.accuracy > state.best_accuracy;
  const bool best = risen || (sane && score.accuracy == state.best_accuracy && score.loss < state.best_loss);
  state.validated_step = state.step;
  state.validation_accuracy = score.accuracy;
  state.validation_loss = score.loss;
  state.validations_since_best = risen || state.step <= patience_from ? 0 : state.validations_since_best + 1;
  if (!best) return false;
  state.best_accuracy = score.accuracy;
  state.best_loss = score.loss;
  state.best_step = state.step;
  return true;
}

}  // namespace lockstep::train
