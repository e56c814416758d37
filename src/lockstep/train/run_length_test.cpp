#include "lockstep/train/run_length.h"

#include <gtest/gtest.h>

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

TEST(RunLength, EndsLargeFoldersAfterAFewEpochs) {
  EXPECT_EQ(default_epochs(10'000), 6);
  EXPECT_EQ(default_patience(10'000), 5);
}

}  // namespace
}  // namespace lockstep::train
