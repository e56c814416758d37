#include "lockstep/cli/sweep_status.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using sweep::TrialState;

TEST(SweepStatus, SaysHowFarTheSweepIs) {
  SweepStanding standing;
  standing.table.spec.command = {"train", "data"};
  standing.table.spec.space.add("learning-rate", "0.001..0.1:log");
  standing.planned = 20;
  EXPECT_EQ(status_text(standing), "0 of 20 trials, 0 running");
  take_trial(standing, {.number = 0, .state = TrialState::running}, 0);
  take_trial(standing, {.number = 1, .state = TrialState::running}, 0);
  take_trial(standing, {.number = 1, .state = TrialState::ended, .value = 0.97123}, 10);
  take_trial(standing, {.number = 2, .state = TrialState::running}, 10);
  EXPECT_EQ(status_text(standing), "1 of 20 trials, 2 running, best 0.9712 (trial 1)");
  take_trial(standing, {.number = 0, .state = TrialState::failed}, 20);
  standing.seconds_since_last = 50;
  EXPECT_EQ(status_text(standing),
            "2 of 20 trials, 1 failed, 1 running, best 0.9712 (trial 1), about 2:10 left");
  standing.seconds_since_last = 500;
  EXPECT_EQ(status_text(standing), "2 of 20 trials, 1 failed, 1 running, best 0.9712 (trial 1)");
}

TEST(SweepStatus, CountsTrialsOfAnEarlierProgramWithoutTheirTime) {
  SweepStanding standing;
  standing.table.spec.space.add("x", "1..9");
  standing.planned = 4;
  standing.table.rows = {{.trial = 0, .state = TrialState::ended, .value = 1.0}, {.trial = 1}};
  EXPECT_EQ(status_text(standing), "1 of 4 trials, 0 running, best 1.0000 (trial 0)");
  take_trial(standing, {.number = 1, .state = TrialState::ended, .value = 2.0}, 30);
  EXPECT_EQ(status_text(standing), "2 of 4 trials, 0 running, best 2.0000 (trial 1), about 1:00 left");
}

}  // namespace
}  // namespace lockstep::cli
