// What is counted and listed from predictions.
#include "lockstep/train/inference/predict.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr double kNanScore = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> class_names(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

Prediction prediction(int64_t target, int64_t label, double score) {
  Prediction one{.source = "", .label = label, .target = target, .scores = std::vector<double>(10)};
  one.scores[static_cast<size_t>(label)] = score;
  return one;
}

TEST(Evaluation, RowsAreTheTrueClasses) {
  const Evaluation evaluation =
      evaluate({prediction(1, 2, 0.5), prediction(1, 1, 1), prediction(-1, 3, 1)}, class_names(10));
  EXPECT_EQ(evaluation.samples, 2);
  EXPECT_EQ(evaluation.accuracy, 0.5);
  EXPECT_EQ(evaluation.confusion[1][2], 1);
  EXPECT_EQ(evaluation.confusion[2][1], 0);
}

TEST(Evaluation, OfEqualScoresTheFirstClassesAreTheFive) {
  const Prediction equal{.source = "", .label = 0, .target = 4, .scores = std::vector<double>(10, 0.1)};
  Prediction sixth = equal;
  sixth.target = 5;
  EXPECT_EQ(evaluate({equal}, class_names(10)).top5_accuracy, 1);
  EXPECT_EQ(evaluate({sixth}, class_names(10)).top5_accuracy, 0);
}

TEST(Evaluation, ScoresThatAreNanDoNotPutEveryClassAmongTheFive) {
  std::vector<Prediction> predictions;
  for (int64_t target = 0; target < 10; ++target) {
    predictions.push_back(
        {.source = "", .label = 0, .target = target, .scores = std::vector<double>(10, kNanScore)});
  }
  const Evaluation evaluation = evaluate(predictions, class_names(10));
  EXPECT_EQ(evaluation.top5_accuracy, 0.5);
  EXPECT_TRUE(std::isnan(evaluation.loss));
}

TEST(Evaluation, RefusesPredictionsOfOtherClasses) {
  for (const auto& [target, classes] : {std::pair<int64_t, size_t>{10, 10}, {1, 9}, {1, 11}}) {
    try {
      evaluate({prediction(target, 2, 0.5)}, class_names(classes));
      FAIL() << "target " << target << " of " << classes << " classes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    }
  }
}

TEST(Mistakes, TheHighestScoreComesFirstAndNanLast) {
  const std::vector<Prediction> predictions{prediction(1, 2, kNanScore), prediction(1, 2, 0.5),
                                            prediction(1, 1, 1),         prediction(1, 2, kNanScore),
                                            prediction(1, 2, 0.75),      prediction(1, 3, 0.5)};
  EXPECT_EQ(mistakes(predictions), (std::vector<size_t>{4, 1, 5, 0, 3}));
}

}  // namespace
}  // namespace lockstep::train
