#include "lockstep/train/update/rate_test.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// The losses of a test that ends where it does for a network whose loss falls at every rate up to `edge`, and
// rises above it.
std::vector<double> losses_with_edge(const RateTest& test, double edge) {
  std::vector<double> losses;
  double loss = 2.3;
  for (int64_t step = 0; step < test.steps; ++step) {
    losses.push_back(loss);
    if (test.is_over(losses)) break;
    loss *= test.rate_at(step) <= edge ? 0.95 : 2;
  }
  return losses;
}

TEST(RateTest, RatesRiseInEqualRatiosAroundTheMiddle) {
  const RateTest test{.middle = 0.01, .steps = 37};
  EXPECT_DOUBLE_EQ(test.rate_at(0), 0.01 / 32);
  EXPECT_DOUBLE_EQ(test.rate_at(18), 0.01);
  EXPECT_DOUBLE_EQ(test.rate_at(36), 0.32);
}

TEST(RateTest, ChoosesATenthOfTheLargestGoodRate) {
  const RateTest test{.middle = 0.01, .steps = 36};
  for (const double edge : {0.01, 0.05, 0.2}) {
    const double chosen = test.chosen(losses_with_edge(test, edge));
    EXPECT_GT(chosen, 0.05 * edge);
    EXPECT_LT(chosen, 0.25 * edge);
  }
}

TEST(RateTest, EndsWhereTheLossExplodes) {
  const RateTest test{.middle = 0.01, .steps = 36};
  EXPECT_LT(losses_with_edge(test, 0.01).size(), 36U);
  EXPECT_EQ(losses_with_edge(test, 1).size(), 36U);
  EXPECT_TRUE(test.is_over({2.3, std::numeric_limits<double>::quiet_NaN()}));
}

// Where nothing is learned in so few steps, the loss is the same noise at all rates below the edge.
TEST(RateTest, NoiseDoesNotMakeTheRateSmall) {
  const RateTest test{.middle = 0.01, .steps = 36};
  std::vector<double> losses;
  for (int64_t step = 0; step < 30; ++step)
    losses.push_back(2.3 + 0.02 * std::sin(7.0 * static_cast<double>(step)));
  for (const double loss : {3.0, 9.0, 30.0}) losses.push_back(loss);
  EXPECT_GT(test.chosen(losses), 0.003);
}

TEST(RateTest, IsRoundedToTwoDigitsSoThatItCanBeGiven) {
  const RateTest test{.middle = 0.001, .steps = 36};
  EXPECT_EQ(test.chosen(std::vector<double>(36, 1.0)), 0.0032);
  EXPECT_EQ(test.chosen({std::numeric_limits<double>::infinity()}), 3.1e-5);
}

TEST(RateTest, ShortRunsHaveNone) {
  EXPECT_EQ(rate_test_steps(287), 0);
  EXPECT_EQ(rate_test_steps(288), 36);
}

}  // namespace
}  // namespace lockstep::train
