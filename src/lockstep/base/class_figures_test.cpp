#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/base/class_figures.h"

namespace lockstep {
namespace {

const ConfusionMatrix kConfusion{{8, 2, 0}, {1, 9, 0}, {0, 0, 0}};
const std::vector<std::string> kClasses{"cat", "dog", "owl"};

TEST(ClassFigures, AreCountedFromRowsAndColumns) {
  const auto rows = class_figures(kConfusion, kClasses);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].name, "cat");
  EXPECT_EQ(rows[0].samples, 10);
  EXPECT_EQ(rows[0].predicted, 9);
  EXPECT_DOUBLE_EQ(rows[0].precision, 8.0 / 9);
  EXPECT_DOUBLE_EQ(rows[0].recall, 0.8);
  EXPECT_DOUBLE_EQ(rows[0].f1, 2 * (8.0 / 9) * 0.8 / (8.0 / 9 + 0.8));
}

TEST(ClassFigures, AClassThatNeverOccursHasNone) {
  const auto rows = class_figures(kConfusion, kClasses);
  EXPECT_TRUE(std::isnan(rows[2].precision));
  EXPECT_TRUE(std::isnan(rows[2].recall));
  EXPECT_TRUE(std::isnan(rows[2].f1));
  const ClassFigures mean = mean_figures(rows);
  EXPECT_DOUBLE_EQ(mean.recall, (0.8 + 0.9) / 2);
  EXPECT_DOUBLE_EQ(mean.precision, (8.0 / 9 + 9.0 / 11) / 2);
  EXPECT_EQ(mean.samples, 20);
  EXPECT_EQ(mean.right, 17);
}

// As scikit-learn counts it: f1_score([0, 1], [0, 2], average="macro") is 1/3.
TEST(ClassFigures, AClassThatIsNeverRightlyAnsweredCountsAsZeroInTheMean) {
  const auto rows = class_figures({{1, 0, 0}, {0, 0, 1}, {0, 0, 0}}, kClasses);
  EXPECT_TRUE(std::isnan(rows[1].precision));
  EXPECT_TRUE(std::isnan(rows[2].recall));
  EXPECT_EQ(rows[1].f1, 0);
  EXPECT_EQ(rows[2].f1, 0);
  EXPECT_DOUBLE_EQ(mean_figures(rows).f1, 1.0 / 3);
}

TEST(Confusions, TheMostFrequentComesFirst) {
  const auto pairs = confusions(kConfusion);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].count, 2);
  EXPECT_EQ(pairs[0].truth, 0U);
  EXPECT_EQ(pairs[0].answer, 1U);
  EXPECT_EQ(pairs[1].count, 1);
}

}  // namespace
}  // namespace lockstep
