#include "lockstep/train/step/loss_scale.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

TEST(LossScale, IsThatOfPyTorchsGradScaler) {
  LossScale scale;
  EXPECT_EQ(scale.factor, 65536);
  for (int step = 1; step < 2000; ++step) scale = next(scale, false, step);
  EXPECT_EQ(scale.factor, 65536);
  scale = next(scale, false, 2000);
  EXPECT_EQ(scale.factor, 131072);
  for (int step = 0; step < 1999; ++step) scale = next(scale, false, step);
  scale = next(scale, true, 4000);
  EXPECT_EQ(scale.factor, 65536);
  EXPECT_EQ(scale.skipped, 1);
  for (int step = 0; step < 1999; ++step) scale = next(scale, false, step);
  EXPECT_EQ(scale.factor, 65536) << "the count begins anew";
  EXPECT_EQ(next(scale, false, 6000).factor, 131072);
}

TEST(LossScale, HasALimitOnEitherSide) {
  LossScale scale;
  EXPECT_THROW(for (int step = 1; step < 100; ++step) scale = next(scale, true, step), Error);
  EXPECT_GT(scale.factor, 0);
  EXPECT_EQ(next({.factor = 0x1p127, .steps = 1999}, false, 1).factor, 0x1p127);
}

}  // namespace
}  // namespace lockstep::train
