#include "lockstep/cloud/watchdog.h"

#include <gmock/gmock.h>

#include "lockstep/base/test_folder.h"

namespace lockstep::cloud {
namespace {

using ::testing::HasSubstr;

constexpr double kStart = 1'000'000;
constexpr double kMinute = 60;
const WatchdogLimits kIdle{.idle = 30 * kMinute};

Sight at(double minutes, double progressed_minutes = -1) {
  return {.now = kStart + minutes * kMinute,
          .session = "boot",
          .progressed = progressed_minutes < 0 ? 0 : kStart + progressed_minutes * kMinute};
}

TEST(Watchdog, StopsAtTheIdleLimitAfterTheStart) {
  WatchdogState state;
  EXPECT_FALSE(look(kIdle, at(0), state).stop);
  EXPECT_FALSE(look(kIdle, at(29), state).stop);
  const Verdict verdict = look(kIdle, at(30), state);
  EXPECT_TRUE(verdict.stop);
  EXPECT_EQ(verdict.reason, "no step, validation or checkpoint for 30:00, the limit is 30:00");
}

TEST(Watchdog, ProgressPutsTheStopOff) {
  WatchdogState state;
  for (double minute = 0; minute < 300; ++minute)
    ASSERT_FALSE(look(kIdle, at(minute, minute / 2 + 149), state).stop);
  // The last progress was at 298.5 minutes.
  EXPECT_FALSE(look(kIdle, at(328, 298.5), state).stop);
  EXPECT_TRUE(look(kIdle, at(329, 298.5), state).stop);
}

TEST(Watchdog, OldProgressAndProgressInTheFutureDoNotHelp) {
  WatchdogState state;
  look(kIdle, at(0), state);
  EXPECT_TRUE(look(kIdle, at(31, 0.5), state).stop);
  WatchdogState other;
  look(kIdle, at(0), other);
  EXPECT_FALSE(look(kIdle, at(10, 1e6), other).stop);
  EXPECT_DOUBLE_EQ(other.progressed, kStart + 10 * kMinute);
}

TEST(Watchdog, AClockThatWasAheadDoesNotKeepTheClusterOn) {
  WatchdogState state;
  look(kIdle, at(1e6), state);
  EXPECT_FALSE(look(kIdle, at(0), state).stop);
  EXPECT_FALSE(look(kIdle, at(29), state).stop);
  EXPECT_TRUE(look(kIdle, at(30), state).stop);
}

TEST(Watchdog, AnotherBootBeginsAnew) {
  WatchdogState state;
  look({.idle = 1800, .budget = 1, .head_price = 60}, at(0), state);
  look({.idle = 1800, .budget = 1, .head_price = 60}, at(0.5), state);
  EXPECT_DOUBLE_EQ(state.spent, 0.5);
  Sight later = at(600);
  later.session = "next boot";
  EXPECT_FALSE(look({.idle = 1800, .budget = 1, .head_price = 60}, later, state).stop);
  EXPECT_DOUBLE_EQ(state.spent, 0);
}

TEST(Watchdog, TheBudgetCountsMachinesThatAreOn) {
  const WatchdogLimits limits{.budget = 50, .machine_price = 20, .head_price = 0.1};
  WatchdogState state;
  Sight sight = at(0);
  sight.machines = 2;
  look(limits, sight, state);
  double minute = 0;
  Verdict verdict;
  while (!verdict.stop && minute < 1000) {
    ++minute;
    sight.now = kStart + minute * kMinute;
    verdict = look(limits, sight, state);
  }
  EXPECT_EQ(minute, 75);  // 40.1 dollars an hour
  EXPECT_THAT(verdict.reason, HasSubstr("it has cost $50.1"));
}

TEST(Watchdog, TheBudgetGoesOnCountingWhileSlurmDoesNotAnswer) {
  const WatchdogLimits limits{.budget = 50, .machine_price = 20};
  WatchdogState state;
  Sight sight = at(0);
  sight.machines = 2;
  look(limits, sight, state);
  look(limits, at(30), state);
  EXPECT_DOUBLE_EQ(state.spent, 20);
  EXPECT_TRUE(look(limits, at(75), state).stop);
  sight = at(75);
  sight.machines = 0;
  look(limits, sight, state);
  look(limits, at(135), state);
  EXPECT_DOUBLE_EQ(state.spent, 50);
}

TEST(Watchdog, MachinesThatStartGetAQuarterOfAnHourMore) {
  WatchdogState state;
  Sight sight = at(0);
  sight.is_starting = true;
  look(kIdle, sight, state);
  sight.now = kStart + 44 * kMinute;
  EXPECT_FALSE(look(kIdle, sight, state).stop);
  sight.now = kStart + 45 * kMinute;
  EXPECT_TRUE(look(kIdle, sight, state).stop);
}

TEST(Watchdog, WithoutLimitsItNeverStops) {
  WatchdogState state;
  look({}, at(0), state);
  EXPECT_FALSE(look({}, at(1e5), state).stop);
}

TEST(Watchdog, AClockThatGoesBackCostsNothing) {
  const WatchdogLimits limits{.budget = 1, .head_price = 1};
  WatchdogState state;
  look(limits, at(10), state);
  look(limits, at(5), state);
  EXPECT_EQ(state.spent, 0);
}

TEST(Progress, IsStepsValidationsAndCheckpointsOnly) {
  const test::TemporaryFolder folder;
  folder.write(
      "jobs/7/runs/a/events/rank-0-attempt-0.jsonl",
      "{\"kind\":\"step\",\"step\":1,\"time\":100,\"values\":{}}\n"
      "{\"kind\":\"validation\",\"step\":1,\"time\":120,\"values\":{}}\n"
      "{\"kind\":\"message\",\"step\":1,\"time\":500,\"values\":{\"text\":\"\\\"kind\\\":\\\"step\\\"\"}}\n"
      "{\"kind\":\"heartbeat\",\"time\":600}\n{\"kind\":\"st");
  folder.write("runs/b/events/rank-0-attempt-1.jsonl", "{\"kind\":\"checkpoint\",\"step\":5,\"time\":110}\n");
  folder.write("runs/b/status.json", "{\"kind\":\"step\",\"time\":900}\n");
  folder.write("runs/c/events/rank-0-attempt-0.jsonl",
               "no JSON\n\n[[[[\n{\"kind\":7}\n{\"kind\":\"step\",\"time\":\"x\"}");
  EXPECT_EQ(latest_progress({folder.path(), "/no/such/folder"}, 1000), 120);
}

TEST(Progress, ATimeInTheFutureIsThatOfItsFile) {
  const test::TemporaryFolder folder;
  folder.write("a/events/rank-0-attempt-0.jsonl", "{\"kind\":\"step\",\"step\":1,\"time\":99999999999}\n");
  const double latest = latest_progress({folder.path()}, 50'000'000'000);
  EXPECT_GT(latest, 1.7e9);
  EXPECT_LT(latest, 4e9);
}

TEST(Progress, NothingIsFoundWhereNothingIs) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(latest_progress({folder.path()}, 1000), 0);
}

}  // namespace
}  // namespace lockstep::cloud
