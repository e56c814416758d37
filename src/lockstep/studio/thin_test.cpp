#include "lockstep/studio/thin.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

namespace lockstep::studio {
namespace {

using testing::Contains;

struct Line {
  std::vector<double> x;
  std::vector<float> y;
};

Line flat_line(size_t count) {
  Line line{.x = {}, .y = std::vector<float>(count, 1)};
  for (size_t i = 0; i < count; ++i) line.x.push_back(static_cast<double>(i));
  return line;
}

TEST(Thin, KeepsASpikeOfOneStepAtEveryZoom) {
  Line line = flat_line(100'000);
  line.y[54'321] = 9;
  line.y[54'999] = -9;
  for (const int64_t columns : {1, 7, 100, 1000}) {
    for (const double half : {100'000.0, 20'000.0, 2000.0, 700.0}) {
      const Points points =
          thin(line.x, line.y, {.from = 54'321 - half, .to = 54'321 + half, .columns = columns});
      EXPECT_LE(points.x.size(), static_cast<size_t>(2 * columns + 2));
      EXPECT_THAT(points.y, Contains(9)) << columns << " columns, half " << half;
      EXPECT_THAT(points.y, Contains(-9)) << columns << " columns, half " << half;
      EXPECT_TRUE(std::is_sorted(points.x.begin(), points.x.end()));
      const auto spike = std::find(points.y.begin(), points.y.end(), 9) - points.y.begin();
      EXPECT_EQ(points.x[static_cast<size_t>(spike)], 54'321);
    }
  }
}

TEST(Thin, GivesAllPointsOfAShortCurveAndANeighbourOnEachSide) {
  const Line line = flat_line(10);
  EXPECT_EQ(thin(line.x, line.y, {.from = -1, .to = 100, .columns = 5}).x, line.x);
  EXPECT_EQ(thin(line.x, line.y, {.from = 3, .to = 4, .columns = 5}).x, (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(thin(line.x, line.y, {.from = 3.2, .to = 3.4, .columns = 5}).x, (std::vector<double>{3, 4}));
  EXPECT_TRUE(thin({}, {}, {.from = 0, .to = 1, .columns = 5}).x.empty());
}

TEST(Thin, EndsWithTheLastValue) {
  Line line = flat_line(10'000);
  line.y[9998] = 3;
  line.y[9999] = 2;
  const Points points = thin(line.x, line.y, {.from = 0, .to = 1e5, .columns = 10});
  EXPECT_EQ(points.x.back(), 9999);
  EXPECT_EQ(points.y.back(), 2);
}

TEST(Thin, KeepsWhatIsNotFinite) {
  Line line = flat_line(10'000);
  line.y[5000] = NAN;
  const Points points = thin(line.x, line.y, {.from = 0, .to = 1e5, .columns = 10});
  EXPECT_TRUE(std::any_of(points.y.begin(), points.y.end(), [](double y) { return std::isnan(y); }));
}

TEST(Thin, TakesGapsInX) {
  Line line = flat_line(1000);
  for (size_t i = 500; i < 1000; ++i) line.x[i] += 1e9;
  const Points points = thin(line.x, line.y, {.from = 0, .to = 1e10, .columns = 20});
  EXPECT_LE(points.x.size(), 42U);
  EXPECT_EQ(points.x.front(), 0);
}

TEST(Smoothed, BeginsAtTheFirstValueAndLeavesGapsOut) {
  const std::vector<float> smooth = smoothed(std::vector<float>{2, 2, NAN, 2}, 0.9);
  EXPECT_FLOAT_EQ(smooth[0], 2);
  EXPECT_FLOAT_EQ(smooth[1], 2);
  EXPECT_TRUE(std::isnan(smooth[2]));
  EXPECT_FLOAT_EQ(smooth[3], 2);
}

TEST(Thin, ANumberHasTheDigitsThatWereLogged) {
  for (const double logged : {0.38125, 0.1, 1e-30, -2.5, 0.0, 123456.0})
    EXPECT_EQ(shortest_number(static_cast<float>(logged)), logged);
  EXPECT_EQ(static_cast<float>(shortest_number(1.0F / 3)), 1.0F / 3);
}

}  // namespace
}  // namespace lockstep::studio
