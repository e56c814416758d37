// What becomes of jobs that Slurm has ended; with stand-ins for its commands.
#include "lockstep/cluster/standings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/job_change.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cluster {
namespace {

using jobs::JobState;
using testing::AllOf;
using testing::HasSubstr;

class EndedBySlurm : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("LOCKSTEP_CACHE", (folder_ / "cache").c_str(), 1);
    program("sbatch", "cat > /dev/null; echo 12");
    program("scancel", "true");
    job_ = jobs::make_job(
        folder_ / "jobs", {.command = {"train"}, .run_folder = "run", .profile = "far", .scheduler = "slurm"},
        [&](const jobs::JobPaths& hidden) { write_file_atomic(hidden.profile(), to_json(profile_).dump()); });
    submit_jobs({job_}, {.profile = profile_});
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("LOCKSTEP_CACHE");
  }
  void program(const std::string& name, const std::string& script) const {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  // What a command shows while squeue says this.
  jobs::JobView look(const std::string& line) const {
    program("squeue", line.empty() ? "true" : "echo '" + line + "'");
    std::filesystem::remove_all(folder_ / "cache");
    std::vector<jobs::JobView> views{jobs::view_of(job_)};
    EXPECT_TRUE(add_standings(views).empty());
    return views.front();
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
  const Profile profile_{.scheduler = "slurm", .program = "lockstep"};
  std::string path_;
  jobs::JobPaths job_;
};

constexpr const char* kTimedOut = "12|TIMEOUT|TimeLimit|node1|one";

TEST_F(EndedBySlurm, AnAttemptThatWasStillSavingHasAResultThatNamesTheCause) {
  jobs::begin_attempt(job_);
  EXPECT_EQ(look("12|RUNNING|None|node1|one").state, JobState::running);
  EXPECT_FALSE(jobs::read_result(job_));
  EXPECT_EQ(look(kTimedOut).state, JobState::failed);
  const auto result = jobs::read_attempt(job_, 1);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->end, jobs::AttemptEnd::failed);
  EXPECT_GT(result->status, 0);
  EXPECT_EQ(result->nodes, "node1");
  const jobs::JobView later = look("");  // Slurm has forgotten it
  EXPECT_EQ(later.state, JobState::failed);
  EXPECT_THAT(later.reason, AllOf(HasSubstr("slurm ended the job"), HasSubstr("TIMEOUT")));
  EXPECT_TRUE(requeue_job(job_, {}));
  EXPECT_EQ(look("12|PENDING|None||one").state, JobState::queued);
}

TEST_F(EndedBySlurm, AnAttemptThatSavedAndWasNotStartedAgainIsOver) {
  jobs::end_attempt(job_, {.end = jobs::AttemptEnd::stopped,
                           .attempt = jobs::begin_attempt(job_),
                           .step = 7,
                           .reason = "saved before the time limit"});
  EXPECT_EQ(look(kTimedOut).state, JobState::failed);
  EXPECT_EQ(jobs::read_result(job_)->step, 7);
  EXPECT_THAT(jobs::read_result(job_)->reason,
              AllOf(HasSubstr("saved before the time limit"), HasSubstr("TIMEOUT")));
}

TEST_F(EndedBySlurm, AJobThatFailsBeforeAnAttemptBeginsIsOver) {
  EXPECT_EQ(look("12|FAILED|NonZeroExitCode|node1|one").state, JobState::failed);
  EXPECT_THAT(look("").reason, HasSubstr("NonZeroExitCode"));
}

// Of an attempt before the job was queued again nothing counts.
TEST_F(EndedBySlurm, AForgottenAttemptKeepsItsResult) {
  jobs::end_attempt(
      job_, {.end = jobs::AttemptEnd::failed, .attempt = jobs::begin_attempt(job_), .reason = "no data"});
  EXPECT_TRUE(requeue_job(job_, {}));
  EXPECT_EQ(look("12|FAILED|NonZeroExitCode|node1|one").state, JobState::failed);
  EXPECT_THAT(jobs::read_result(job_)->reason, HasSubstr("NonZeroExitCode"));
  EXPECT_EQ(jobs::read_attempt(job_, 1)->reason, "no data");
}

TEST_F(EndedBySlurm, AJobThatSomebodyCancelledIsCancelled) {
  jobs::begin_attempt(job_);
  EXPECT_EQ(look("12|CANCELLED|None|node1|one").state, JobState::cancelled);
  EXPECT_EQ(look("").state, JobState::cancelled);
}

TEST_F(EndedBySlurm, AJobThatSlurmHasForgottenCanBeCancelled) {
  jobs::begin_attempt(job_);
  EXPECT_EQ(look("").state, JobState::lost);
  EXPECT_TRUE(cancel_job(job_, {}));
  EXPECT_EQ(look("").state, JobState::cancelled);
}

TEST_F(EndedBySlurm, AJobThatRunsEndsItselfWhenItIsCancelled) {
  jobs::begin_attempt(job_);
  EXPECT_EQ(look("12|RUNNING|None|node1|one").state, JobState::running);
  EXPECT_TRUE(cancel_job(job_, {}));
  EXPECT_FALSE(jobs::read_result(job_));
}

TEST_F(EndedBySlurm, AJobThatIsBeingStartedAgainIsLeftAlone) {
  jobs::begin_attempt(job_);
  const auto change = jobs::try_take_to_change(job_);
  ASSERT_TRUE(change);
  EXPECT_EQ(look(kTimedOut).state, JobState::failed);
  EXPECT_FALSE(jobs::read_result(job_));
}

}  // namespace
}  // namespace lockstep::cluster
