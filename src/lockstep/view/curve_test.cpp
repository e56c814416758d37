#include "lockstep/view/internal/curve.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/view/internal/figures.h"
#include "lockstep/view/internal/history.h"

namespace lockstep::view {
namespace {

TEST(Curve, KeepsShortCurvesWhole) {
  Curve curve;
  for (int64_t step = 1; step <= 500; ++step) curve.add(step, static_cast<double>(step % 7));
  const auto points = curve.points();
  ASSERT_EQ(points.size(), 500U);
  EXPECT_EQ(points[12].step, 13);
  EXPECT_EQ(points[12].value, 6);
}

TEST(Curve, StaysSmallAndKeepsPeaksAndOrder) {
  Curve curve;
  for (int64_t step = 1; step <= 1'000'003; ++step)
    curve.add(step, step == 123'457 ? 99.0 : step == 777'777 ? -99.0 : std::sin(static_cast<double>(step)));
  const auto points = curve.points();
  EXPECT_LE(points.size(), kCurvePoints + 1);
  EXPECT_GT(points.size(), kCurvePoints / 3);
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(),
                             [](const Point& a, const Point& b) { return a.step < b.step; }));
  EXPECT_TRUE(std::any_of(points.begin(), points.end(),
                          [](const Point& point) { return point.step == 123'457 && point.value == 99; }));
  EXPECT_TRUE(std::any_of(points.begin(), points.end(),
                          [](const Point& point) { return point.step == 777'777 && point.value == -99; }));
  EXPECT_EQ(points.back().step, 1'000'003);
}

TEST(Curve, ForgetsWhatIsMadeAgain) {
  Curve curve;
  for (int64_t step = 1; step <= 100; ++step) curve.add(step, static_cast<double>(step));
  curve.forget_from(51);
  EXPECT_EQ(curve.points().size(), 50U);
  EXPECT_EQ(curve.last().step, 50);
  curve.forget_from(1);
  EXPECT_TRUE(curve.empty());
}

TEST(Curve, LeavesOutWhatIsNotFinite) {
  Curve curve;
  curve.add(1, std::nan(""));
  curve.add(2, INFINITY);
  EXPECT_TRUE(curve.points().empty());
}

TEST(Smoother, FirstValueIsItself) {
  Smoother smoother(50);
  EXPECT_DOUBLE_EQ(smoother.add(2.3), 2.3);
  EXPECT_DOUBLE_EQ(smoother.add(2.3), 2.3);
  EXPECT_LT(smoother.add(0), 2.3);
}

TEST(Axis, TicksAreRound) {
  EXPECT_THAT(make_axis(0, 1, 6, true).ticks,
              testing::Pointwise(testing::DoubleNear(1e-12), {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}));
  const Axis steps = make_axis(0, 1128, 6, false);
  EXPECT_THAT(steps.ticks, testing::ElementsAre(0, 500, 1000));
  EXPECT_EQ(steps.high, 1128);
  const Axis loss = make_axis(0, 2.31, 5, true);
  EXPECT_DOUBLE_EQ(loss.high, 3.0);
  EXPECT_EQ(loss.label(1), "1");
  EXPECT_EQ(make_axis(0.91, 1, 6, true).label(0.92), "0.92");
  EXPECT_FALSE(make_axis(5, 5, 4, true).ticks.empty());
  EXPECT_EQ(make_axis(0, 50000, 6, true).label(20000), "20,000");
  EXPECT_EQ(make_axis(0, 2e8, 6, true).label(1.5e8), "1.5e+08") << "there is no room for 150,000,000";
  EXPECT_EQ(make_axis(0, 1e300, 6, true).label(-2e299), "-2e+299");
}

TEST(Axis, HasTicksWithinForAnyNumbers) {
  constexpr double kUlp = 1.0000000000000002;
  for (const auto& [low, high] :
       {std::pair{-1e300, 1e300}, std::pair{0.0, 5e-324}, std::pair{1e300, 1e300}, std::pair{9e15, 9e15 + 2},
        std::pair{1.0, kUlp}, std::pair{1e-310, 2e-310}}) {
    for (const bool round_out : {false, true}) {
      const Axis axis = make_axis(low, high, 6, round_out);
      EXPECT_LE(axis.ticks.size(), 20U) << low;
      ASSERT_FALSE(axis.ticks.empty()) << low;
      for (const double tick : axis.ticks) {
        EXPECT_GE(axis.share(tick), -0.001) << low;
        EXPECT_LE(axis.share(tick), 1.001) << low;
      }
      EXPECT_TRUE(axis.share(low) >= -0.001 && axis.share(high) <= 1.001) << low;
    }
  }
}

TEST(StepAxis, ReachesOverAllThatIsDrawn) {
  History history;
  const auto step = [&](int64_t number, double loss, double accuracy) {
    history.add({.step = number, .kind = "step", .values = {{"loss", loss}, {"accuracy", accuracy}}});
  };
  step(10, 1, NAN);
  step(20, 1, 0.5);
  step(50'000'000, NAN, 0.5);
  EXPECT_EQ(step_axis(history, 5).high, 50'000'000);
  history.add(
      {.step = 60'000'000, .kind = "plan", .values = {{"steps_per_epoch", 1e15}, {"max_epochs", 1e15}}});
  EXPECT_EQ(history.status().total_steps, 0);
}

TEST(Figures, ReadWell) {
  EXPECT_EQ(as_loss(0.08123), "0.0812");
  EXPECT_EQ(as_loss(std::nan("")), "nan");
  EXPECT_EQ(as_loss(-INFINITY), "-inf");
  EXPECT_EQ(as_loss(1e9), "1e+09");
  EXPECT_EQ(as_speed(3402.4), "3,402");
  EXPECT_EQ(as_speed(8.13), "8.1");
  EXPECT_EQ(as_rate(0.0087123), "0.00871");
}

}  // namespace
}  // namespace lockstep::view
