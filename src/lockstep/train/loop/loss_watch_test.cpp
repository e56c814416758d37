#include "lockstep/train/loop/loss_watch.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using testing::HasSubstr;

Plan plan_of(std::vector<int64_t> counts, int64_t steps_per_epoch = 40) {
  Plan plan;
  for (size_t i = 0; i < counts.size(); ++i) plan.data.classes.push_back(std::to_string(i));
  plan.data.class_counts = std::move(counts);
  plan.length.steps_per_epoch = steps_per_epoch;
  plan.update.learning_rate = 0.5;
  return plan;
}

// The first verdict that is not good, and its step; or good.
std::pair<LossVerdict, int64_t> first_verdict(const Plan& plan, double (*loss)(int64_t step),
                                              int64_t steps = 400) {
  const LossWatch watch(plan, 0.5);
  WatchedLoss watched;
  for (int64_t step = 1; step <= steps; ++step) {
    const LossVerdict verdict = watch.judge(watched, step, loss(step));
    if (verdict != LossVerdict::good) return {verdict, step};
  }
  return {LossVerdict::good, 0};
}

TEST(LossWatch, ALossThatFallsIsGood) {
  const auto falls = [](int64_t step) { return 3.0 / static_cast<double>(step); };
  EXPECT_EQ(first_verdict(plan_of({50, 50, 50, 50}), falls).first, LossVerdict::good);
  // Alike when it was large at the start, as with weights that were trained on other classes.
  const auto from_high = [](int64_t step) { return 6.0 / static_cast<double>(step); };
  EXPECT_EQ(first_verdict(plan_of({50, 50}), from_high).first, LossVerdict::good);
}

TEST(LossWatch, SeesAnExplosionWithinAnEpoch) {
  const auto explodes = [](int64_t step) { return step < 5 ? 1.4 : 158.0; };
  EXPECT_EQ(first_verdict(plan_of({50, 50, 50, 50}), explodes),
            (std::pair{LossVerdict::exploded, int64_t{40}}));
  const auto at_once = [](int64_t step) { return step < 7 ? 1.0 : std::numeric_limits<double>::quiet_NaN(); };
  EXPECT_EQ(first_verdict(plan_of({50, 50}), at_once), (std::pair{LossVerdict::exploded, int64_t{7}}));
  // One bad mini-batch is none.
  const auto once = [](int64_t step) { return step == 30 ? 60.0 : 1.0 / static_cast<double>(step); };
  EXPECT_EQ(first_verdict(plan_of({50, 50}), once).first, LossVerdict::good);
}

TEST(LossWatch, SeesALossThatStandsAtGuessing) {
  const auto stands = [](int64_t) { return 1.386; };  // log(4)
  EXPECT_EQ(first_verdict(plan_of({50, 50, 50, 50}, 1000), stands),
            (std::pair{LossVerdict::stands_still, int64_t{100}}));
  // Guessing is better where the classes have unequal shares.
  EXPECT_EQ(first_verdict(plan_of({970, 10, 10, 10}, 1000), [](int64_t) { return 0.5; }).first,
            LossVerdict::stands_still);
  // All but one sample of one class: there is nearly nothing to learn.
  EXPECT_EQ(first_verdict(plan_of({9999, 1}, 1000), [](int64_t) { return 0.01; }).first, LossVerdict::good);
}

// A rate that is too high for the first steps lifts the loss, which then comes down to guessing and no
// further.
TEST(LossWatch, SeesThatALossComesDownToGuessingOnly) {
  const auto comes_down = [](int64_t step) { return 0.7 + 6.0 / static_cast<double>(step * step); };
  EXPECT_EQ(first_verdict(plan_of({50, 50}), comes_down).first, LossVerdict::stands_still);
  const auto slowly = [](int64_t step) { return std::max(0.7, 3.0 - 0.05 * static_cast<double>(step)); };
  EXPECT_EQ(first_verdict(plan_of({50, 50}), slowly), (std::pair{LossVerdict::stands_still, int64_t{80}}));
}

TEST(LossWatch, AWarmUpDoesNotStandStillWithinTheFirstEpoch) {
  Plan plan = plan_of({50, 50, 50, 50}, 700);
  plan.update.warmup_steps = 560;
  EXPECT_EQ(first_verdict(plan, [](int64_t step) { return step < 500 ? 1.386 : 0.9; }).first,
            LossVerdict::good);
  plan.length.steps_per_epoch = 200;
  EXPECT_EQ(first_verdict(plan, [](int64_t) { return 1.386; }),
            (std::pair{LossVerdict::stands_still, int64_t{200}}));
}

TEST(LossWatch, SeesInputsThatAreNotNormalisedAtTheFirstStep) {
  const auto high = [](int64_t step) { return 55.0 / static_cast<double>(step); };
  EXPECT_EQ(first_verdict(plan_of({50, 50, 50, 50}), high),
            (std::pair{LossVerdict::starts_high, int64_t{1}}));
  // Random weights guess equally, which is far from the best answer where one class has nearly all samples.
  EXPECT_EQ(first_verdict(
                plan_of({975, 3, 3, 3, 3, 3, 3, 3, 2, 2}), [](int64_t) { return 2.3; }, 1)
                .first,
            LossVerdict::good);
  EXPECT_THAT(LossWatch(plan_of({50, 50}), 0.5).text({}, LossVerdict::starts_high, 55),
              HasSubstr("--normalize mean-std"));
}

TEST(LossWatch, SaysWhatToTry) {
  Plan plan = plan_of({50, 50});
  EXPECT_THAT(
      LossWatch(plan, 0.5).text({}, LossVerdict::exploded, 158),
      testing::AllOf(HasSubstr("158"), HasSubstr("guessing gives 0.693"), HasSubstr("--learning-rate 0.05"),
                     HasSubstr("--normalize mean-std"), HasSubstr("--gradient-clip 1")));
  EXPECT_THAT(LossWatch(plan, 0.5).text({}, LossVerdict::stands_still, 0.69),
              HasSubstr("labels belong to the samples"));
}

}  // namespace
}  // namespace lockstep::train
