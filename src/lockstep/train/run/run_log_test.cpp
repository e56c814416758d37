#include "lockstep/train/run/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/train/run/run_result.h"

namespace lockstep::train {
namespace {

class RunLogTest : public testing::Test {
 protected:
  const lockstep::test::TemporaryFolder temporary_;
  const record::RunPaths paths_{temporary_.path()};
};

TEST_F(RunLogTest, AResumeIsAnnouncedAlsoWhereTheStatusIsGone) {
  {
    RunLog log;
    EXPECT_TRUE(log.announce(paths_, {.attempt = 1, .step = 7}));
    const auto said = record::read_status(paths_.folder);
    ASSERT_TRUE(said.has_value());
    EXPECT_EQ(said->state, record::RunState::running);
    EXPECT_EQ(said->attempt, 1);
    EXPECT_EQ(said->step, 7);
  }
  EXPECT_FALSE(record::read_status(paths_.folder).has_value()) << "the attempt was refused";
}

// A run that was killed in epoch 3 goes on from its checkpoint in epoch 2.
TEST_F(RunLogTest, AResumeIsAnnouncedInTheEpochOfItsCheckpoint) {
  { const record::StatusWriter killed(paths_.folder, {.step = 9, .epoch = 3, .total_steps = 20}); }
  RunState state;
  state.step = 8;
  RunLog log;
  EXPECT_TRUE(log.announce(paths_, status_at(state, 1, {.total_steps = 16, .steps_per_epoch = 4})));
  const auto said = record::read_status(paths_.folder);
  EXPECT_EQ(said->step, 8);
  EXPECT_EQ(said->epoch, 2);
  EXPECT_EQ(said->total_steps, 20);
}

TEST_F(RunLogTest, AFirstAttemptIsNotAnnounced) {
  RunLog log;
  EXPECT_FALSE(log.announce(paths_, {}));
  EXPECT_FALSE(std::filesystem::exists(paths_.status()));
}

TEST_F(RunLogTest, ACheckpointThatIsWrittenLateDoesNotTakeTheStatusBack) {
  RunLog log;
  log.open(paths_, {.total_steps = 9}, {});
  log.say(record::Step{}, 5, 3);
  log.say(record::SavedCheckpoint{}, 4, 2);
  log.finish(record::RunState::stopped, "Ctrl-C");
  EXPECT_EQ(record::read_status(paths_.folder)->step, 5);
  EXPECT_EQ(record::read_status(paths_.folder)->epoch, 3);
}

}  // namespace
}  // namespace lockstep::train
