#include "lockstep/view/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/synthetic_run.h"

namespace lockstep::view {
namespace {

using testing::HasSubstr;
using testing::Not;

// The same steps in 1/workers of the time.
ScalingRun run_with(int64_t workers, int64_t epochs = 8) {
  ScalingRun run(workers);
  const auto events = synthetic_events({.epochs = epochs});
  for (record::Event event : events) {
    event.time = events.front().time + (event.time - events.front().time) / static_cast<double>(workers);
    if (event.kind == "end") event.values["images_per_second"] = 3000.0 * static_cast<double>(workers);
    run.add(event);
  }
  run.add({.time = 0, .kind = "hash", .values = {{"weights", "00ff"}}});
  return run;
}

TEST(Scaling, ARunIsReadFromItsEvents) {
  const ScalingRun run = run_with(2);
  EXPECT_EQ(run.steps().size(), 8U * 71);
  EXPECT_EQ(run.smoothed_accuracy().size(), run.steps().size());
  EXPECT_EQ(run.images_per_second(), 6000);
  EXPECT_EQ(run.weights(), "00ff");
  EXPECT_NEAR(run.seconds(), 8 * 71 * 0.0376 / 2, 0.01);
}

TEST(Scaling, MoreWorkersReachAnAccuracySooner) {
  const auto one = run_with(1).seconds_to(0.9), four = run_with(4).seconds_to(0.9);
  ASSERT_TRUE(one && four);
  EXPECT_NEAR(*one, 4 * *four, 0.01);
  EXPECT_FALSE(run_with(1).seconds_to(1.1));
}

TEST(Scaling, TheCsvHasARowForEachStepOfEachRun) {
  const auto lines = split(scaling_csv({run_with(1, 1), run_with(2, 1)}), '\n');
  EXPECT_EQ(lines.front(), "workers,epoch,step,seconds,loss,accuracy,smoothed_accuracy,images_per_second");
  EXPECT_EQ(lines.size(), 2U * 71 + 2);  // and what follows the last line break
  EXPECT_TRUE(lines[1].starts_with("1,1,1,"));
  EXPECT_TRUE(lines[72].starts_with("2,1,1,"));
  EXPECT_EQ(split(lines[1], ',').size(), 8U);
}

TEST(Scaling, TheDrawingNamesEachRunAndItsRate) {
  const std::string svg = scaling_svg({run_with(1), run_with(2), run_with(4)}, "lenet on <digits>");
  for (const char* text : {"1 worker<", "2 workers<", "4 workers<", "3,000<", "6,000<", "12,000<",
                           "lenet on &lt;digits&gt;", "seconds<", "images/s<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Scaling, RunsWithoutStepsCanBeDrawn) {
  EXPECT_THAT(scaling_svg({}, "nothing"), HasSubstr("nothing"));
  EXPECT_THAT(scaling_svg({ScalingRun(3)}, "one"), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace lockstep::view
