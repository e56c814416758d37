#include "lockstep/train/options/run_length.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

TEST(RunLength, CountsEpochsOfMiddlingFolders) {
  EXPECT_EQ(default_epochs(71), 8);  // the 9,000 digits of README
  EXPECT_EQ(default_patience(71), 5);
  EXPECT_EQ(default_epochs(20), 25);
}

TEST(RunLength, GivesSmallFoldersEnoughSteps) {
  EXPECT_EQ(default_epochs(12), 30);
  EXPECT_EQ(default_epochs(2), 125);
  EXPECT_EQ(default_epochs(1), 250);
  EXPECT_EQ(default_patience(2), 30);
  EXPECT_EQ(default_patience(1), 60);
}

TEST(RunLength, StepsAreWithinALimit) {
  EXPECT_EQ(total_steps(3, 10, 0), 30);
  EXPECT_EQ(total_steps(3, 10, 7), 7);
  EXPECT_EQ(total_steps(1'000'000'000, 100, 0), 100'000'000'000);
  EXPECT_EQ(total_steps(1'000'000'000, 1'000'000'000'000, 5), 5);
  try {
    total_steps(1'000'000'000, 101, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "--max-epochs 1000000000 of 101 steps each are more than the 100,000,000,000 steps that a run "
              "may have");
    EXPECT_EQ(error.hint(), "--max-epochs 990099009, or --max-time");
  }
}

TEST(RunLength, EndsLargeFoldersAfterAFewEpochs) {
  EXPECT_EQ(default_epochs(10'000), 6);
  EXPECT_EQ(default_patience(10'000), 5);
}

}  // namespace
}  // namespace lockstep::train
