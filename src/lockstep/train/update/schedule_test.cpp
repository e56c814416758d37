#include "lockstep/train/update/schedule.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// Of every rate, relative.
constexpr double kRounding = 1e-15;

TEST(Schedule, ConstantStaysConstant) {
  const Schedule schedule{.kind = ScheduleKind::constant, .learning_rate = 0.3, .total_steps = 10};
  for (const int64_t step : {0, 9, 10, 1000}) EXPECT_EQ(schedule.at(step), 0.3);
}

// torch.optim.lr_scheduler.StepLR, by epochs: 0.2 * 0.5^floor(epoch / 3).
TEST(Schedule, PiecewiseDropsAtTheBeginningOfAnEpoch) {
  const Schedule schedule{.kind = ScheduleKind::piecewise,
                          .learning_rate = 0.2,
                          .drop_factor = 0.5,
                          .drop_period = 3,
                          .steps_per_epoch = 4};
  EXPECT_EQ(schedule.at(0), 0.2);
  EXPECT_EQ(schedule.at(11), 0.2);  // the last step of epoch 2
  EXPECT_EQ(schedule.at(12), 0.1);
  EXPECT_EQ(schedule.at(23), 0.1);
  EXPECT_EQ(schedule.at(24), 0.05);
  EXPECT_EQ(schedule.epoch_of(11), 2);
  EXPECT_EQ(schedule.epoch_of(12), 3);
}

TEST(Schedule, PiecewiseGoesOnFromTheEpochOfAResume) {
  const Schedule schedule{.kind = ScheduleKind::piecewise,
                          .learning_rate = 0.2,
                          .drop_factor = 0.5,
                          .drop_period = 3,
                          .steps_per_epoch = 5,
                          .first_step = 8,
                          .first_epoch = 2};
  EXPECT_EQ(schedule.epoch_of(8), 2);
  EXPECT_EQ(schedule.at(12), 0.2);
  EXPECT_EQ(schedule.epoch_of(13), 3);
  EXPECT_EQ(schedule.at(13), 0.1);
}

TEST(Schedule, AnEpochOfUnknownLengthDoesNotEnd) {
  const Schedule schedule{.kind = ScheduleKind::piecewise, .steps_per_epoch = 0, .first_epoch = 4};
  EXPECT_EQ(schedule.epoch_of(1'000'000), 4);
}

// torch.optim.lr_scheduler.CosineAnnealingLR with eta_min 0: 0.5 * rate * (1 + cos(pi * step / total)).
TEST(Schedule, CosineEndsAtZeroAndStaysThere) {
  const Schedule schedule{.kind = ScheduleKind::cosine, .learning_rate = 0.4, .total_steps = 12};
  EXPECT_EQ(schedule.at(0), 0.4);
  EXPECT_NEAR(schedule.at(3), 0.2 * (1 + std::numbers::sqrt2 / 2), kRounding);  // cos(pi / 4)
  EXPECT_NEAR(schedule.at(4), 0.3, kRounding);                                  // cos(pi / 3) = 1/2
  EXPECT_NEAR(schedule.at(6), 0.2, kRounding);
  EXPECT_NEAR(schedule.at(8), 0.1, kRounding);
  EXPECT_GT(schedule.at(11), 0);
  EXPECT_NEAR(schedule.at(12), 0, kRounding);
  EXPECT_NEAR(schedule.at(20), 0, kRounding);
}

// torch.optim.lr_scheduler.LinearLR times the other schedule: (step + 1) / 4 before step 4.
TEST(Schedule, AWarmUpMultipliesTheRate) {
  Schedule schedule{.kind = ScheduleKind::constant, .learning_rate = 0.8, .warmup_steps = 4};
  EXPECT_EQ(schedule.at(0), 0.2);
  EXPECT_EQ(schedule.at(1), 0.4);
  EXPECT_EQ(schedule.at(3), 0.8);
  EXPECT_EQ(schedule.at(4), 0.8);
  schedule.kind = ScheduleKind::cosine;
  schedule.total_steps = 6;
  EXPECT_NEAR(schedule.at(2), 0.8 * 0.75 * 0.75, kRounding);  // 3 / 4 of 0.5 * (1 + cos(pi / 3))
  EXPECT_NEAR(schedule.at(4), 0.8 * 0.25, kRounding);
}

}  // namespace
}  // namespace lockstep::train
