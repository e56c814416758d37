#include "lockstep/studio/run_log.h"

#include <gmock/gmock.h>

#include "lockstep/record/test_runs.h"

namespace lockstep::studio {
namespace {

using record::Environment;
using record::EventLog;
using record::PlanOfRun;
using record::Step;
using record::Validation;
using record::test::write_event;
using testing::ElementsAre;

Curve curve_of(RunLog& log, const std::string& name, Axis axis = Axis::step) {
  while (log.read_for(std::chrono::seconds(5))) {
  }
  return log.curve({.name = name, .axis = axis, .window = {.from = -1e300, .to = 1e300, .columns = 100}})
      .value();
}

void log_steps(const std::filesystem::path& run, int64_t attempt, int64_t from, int64_t to) {
  EventLog log(run, 0, attempt);
  PlanOfRun plan;
  plan.steps_per_epoch = 10;
  const double began = 1000 + 500 * static_cast<double>(attempt);
  write_event(log, record::event_of(plan), began);
  for (int64_t step = from; step <= to; ++step) {
    Step values;
    values.loss = static_cast<double>(step + 100 * attempt);
    write_event(log, record::event_of(values, step, step / 10 + 1),
                began + static_cast<double>(step - from + 1));
  }
}

TEST(RunLog, ALaterAttemptReplacesTheStepsThatItMakesAgain) {
  const lockstep::test::TemporaryFolder folder;
  const auto run = folder.path() / "run";
  log_steps(run, 0, 1, 5);
  log_steps(run, 1, 4, 6);
  RunLog log(run);
  const Curve curve = curve_of(log, "step.loss");
  EXPECT_THAT(curve.raw.x, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(curve.raw.y, ElementsAre(1, 2, 3, 104, 105, 106));
  EXPECT_THAT(curve_of(log, "step.loss", Axis::epoch).raw.x, ElementsAre(0.1, 0.2, 0.3, 0.4, 0.5, 0.6));
  // The time between two attempts is no training time.
  EXPECT_THAT(curve_of(log, "step.loss", Axis::time).raw.x, ElementsAre(1, 2, 3, 6, 7, 8));
}

TEST(RunLog, SaysThatALogIsNoFile) {
  const lockstep::test::TemporaryFolder folder;
  const auto run = folder.path() / "run";
  log_steps(run, 0, 1, 5);
  std::filesystem::create_symlink("/dev/zero", run / "events/rank-0-attempt-1.jsonl");  // never ends
  RunLog log(run);
  EXPECT_THAT(curve_of(log, "step.loss").raw.x, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(log.said().value("problem", ""), testing::HasSubstr("attempt-1.jsonl\" is no regular file"));
}

TEST(RunLog, ShowsTheExtremesOfStepsThatWereNotLogged) {
  const lockstep::test::TemporaryFolder folder;
  const auto run = folder.path() / "run";
  {
    EventLog log(run, 0, 0);
    write_event(log, record::event_of(Step{.loss = 1, .learning_rate = 0.1}, 10, 1), 1);
    write_event(log,
                record::event_of(Step{.loss = 1,
                                      .least_loss = 0.5,
                                      .least_loss_step = 13,
                                      .largest_loss = 7,
                                      .largest_loss_step = 12,
                                      .learning_rate = 0.1},
                                 20, 1),
                2);
    write_event(log, record::event_of(Validation{.loss = 2}, 20, 1), 3);
    write_event(log, record::event_of(Validation{.loss = 3}, 20, 1), 4);
  }
  RunLog log(run);
  const Curve curve = curve_of(log, "step.loss");
  EXPECT_THAT(curve.raw.x, ElementsAre(10, 12, 13, 20));
  EXPECT_THAT(curve.raw.y, ElementsAre(1, 7, 0.5, 1));
  EXPECT_THAT(curve_of(log, "step.learning_rate").raw.x, ElementsAre(10, 20));
  EXPECT_THAT(curve_of(log, "validation.loss").raw.y, ElementsAre(2, 3));
  EXPECT_FALSE(log.curve({.name = "step.nothing"}));
  EXPECT_FALSE(log.curve({.name = ""}));
}

TEST(RunLog, FollowsARunThatGoesOn) {
  const lockstep::test::TemporaryFolder folder;
  const auto run = folder.path() / "run";
  RunLog log(run);
  EXPECT_FALSE(log.read_for(std::chrono::seconds(1)));
  EventLog events(run, 0, 0);
  write_event(events, record::event_of(Step{.loss = 1}, 1, 1), 1);
  EXPECT_EQ(curve_of(log, "step.loss").raw.x.size(), 1U);
  write_event(events, record::event_of(Step{.loss = 1}, 2, 1), 2);
  EXPECT_EQ(curve_of(log, "step.loss").raw.x.size(), 2U);
  EXPECT_EQ(log.said()["newest"]["step"], 2);
}

}  // namespace
}  // namespace lockstep::studio
