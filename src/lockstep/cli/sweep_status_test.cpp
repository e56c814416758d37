#include "lockstep/cli/sweep_status.h"

#include <gmock/gmock.h>

namespace lockstep::cli {
namespace {

using sweep::TrialState;

TEST(SweepStatus, SaysHowFarTheSweepIs) {
  sweep::Table table;
  table.spec.command = {"train", "data"};
  table.spec.space.add("learning-rate", "0.001..0.1:log");
  SweepStanding standing(table, 20);
  EXPECT_EQ(standing.text(0), "0 of 20 trials, 0 running");
  standing.take({.number = 0, .state = TrialState::running}, 0);
  standing.take({.number = 1, .state = TrialState::running}, 0);
  standing.take({.number = 1, .state = TrialState::ended, .value = 0.97123}, 10);
  standing.take({.number = 2, .state = TrialState::running}, 10);
  EXPECT_EQ(standing.text(10), "1 of 20 trials, 2 running, best 0.9712 (trial 1)");
  standing.take({.number = 0, .state = TrialState::failed}, 20);
  EXPECT_EQ(standing.text(70), "2 of 20 trials, 1 failed, 1 running, best 0.9712 (trial 1), about 2:10 left");
  EXPECT_EQ(standing.text(520), "2 of 20 trials, 1 failed, 1 running, best 0.9712 (trial 1)");
}

TEST(SweepStatus, CountsTrialsOfAnEarlierProgramWithoutTheirTime) {
  sweep::Table table;
  table.spec.space.add("x", "1..9");
  table.rows = {{.trial = 0, .state = TrialState::ended, .value = 1.0}, {.trial = 1}};
  SweepStanding standing(table, 4);
  EXPECT_EQ(standing.text(0), "1 of 4 trials, 0 running, best 1.0000 (trial 0)");
  standing.take({.number = 1, .state = TrialState::ended, .value = 2.0}, 30);
  EXPECT_EQ(standing.text(30), "2 of 4 trials, 0 running, best 2.0000 (trial 1), about 1:00 left");
}

// Whatever the order in which they begin, and also when the best one starts again.
TEST(SweepStatus, NamesTheBestTrialOfTheTable) {
  sweep::Table table;
  table.spec.space.add("x", "1..9");
  SweepStanding standing(table, 4);
  standing.take({.number = 3, .state = TrialState::early, .value = 9.0}, 10);
  EXPECT_EQ(standing.text(100), "1 of 4 trials, 0 running, best 9.0000 (trial 3)");
  standing.take({.number = 2, .state = TrialState::ended, .value = 5.0}, 10);
  standing.take({.number = 1, .state = TrialState::ended, .value = 5.0}, 10);
  EXPECT_EQ(standing.text(100), "3 of 4 trials, 0 running, best 5.0000 (trial 1)");
  standing.take({.number = 1, .state = TrialState::running}, 11);
  EXPECT_EQ(standing.text(100), "2 of 4 trials, 1 running, best 5.0000 (trial 2)");
}

TEST(SweepStatus, SaysWhatWaitingCost) {
  EXPECT_EQ(waiting_text({.seconds = 30, .side_by_side = 2}), "");
  EXPECT_EQ(waiting_text({.seconds = 90, .idle_seconds = 45, .side_by_side = 2}),
            "1:30 with 2 trials side by side; waiting for earlier results took 25 % of it (--lag, --free)\n");
  EXPECT_THAT(waiting_text({.seconds = 30, .idle_seconds = 0.1, .side_by_side = 2}),
              testing::HasSubstr(" took less than 1 % of it"));
}

}  // namespace
}  // namespace lockstep::cli
