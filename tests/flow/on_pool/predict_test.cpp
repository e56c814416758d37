// predict on pools gives what it gives without one.
#include <gtest/gtest.h>

#include "tasks.h"

namespace lockstep {
namespace {

TEST_F(FitOnPool, PredictOnAPoolGivesWhatItGivesWithoutOne) {
  train_alone("alone");
  const train::Model model = train::model_of_run(folder_ / "alone");
  train::Options options{.execution = train::Execution::parallel, .mini_batch_size = 16};
  open(pool::PoolKind::threads, 3);
  const auto alone = train::predict(model, corners(40), options);
  const auto pooled = train::predict(*session, model, corners(40), options);
  ASSERT_EQ(pooled.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(pooled[i].scores, alone[i].scores);
}

TEST_F(FitOnPool, AGroupPredictsTogetherAndAllHaveAll) {
  train_alone("alone");
  const Scores alone =
      scores_of(train::predict(train::model_of_run(folder_ / "alone"), corners(41), {.mini_batch_size = 16}));
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const auto outcomes = open(kind, 3).spmd(predict_task, trial("alone"));
    ASSERT_EQ(outcomes.size(), 3U);
    for (const Scores& outcome : outcomes) {
      EXPECT_EQ(outcome.count, 41);
      EXPECT_EQ(outcome.hash, alone.hash);
    }
  }
}

}  // namespace

Scores predict_once(pool::Worker&, const Trial& trial) {
  return scores_of(train::predict(train::model_of_run(trial.output), corners(41), {.mini_batch_size = 16}));
}

}  // namespace lockstep
