// How jobs that Slurm has ended are shown; with stand-ins for its commands.
#include "lockstep/cluster/standings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cluster {
namespace {

using jobs::JobState;

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

// A later look may find the result that its machine wrote.
TEST_F(EndedBySlurm, AnAttemptThatWasStillSavingIsShownWithTheCauseAndNothingIsWritten) {
  jobs::begin_attempt(job_);
  EXPECT_EQ(look("12|RUNNING|None|node1|one").state, JobState::running);
  const jobs::JobView view = look(kTimedOut);
  EXPECT_EQ(view.state, JobState::failed);
  EXPECT_EQ(view.reason, "TimeLimit (TIMEOUT)");
  EXPECT_FALSE(jobs::read_result(job_));
  EXPECT_FALSE(jobs::read_attempt(job_, 1));
}

TEST_F(EndedBySlurm, AnAttemptThatSavedAndWasNotStartedAgainIsShownAsOver) {
  jobs::end_attempt(job_,
                    {.end = jobs::AttemptEnd::stopped, .attempt = jobs::begin_attempt(job_), .step = 7});
  const jobs::JobView view = look(kTimedOut);
  EXPECT_EQ(view.state, JobState::failed);
  EXPECT_EQ(view.reason, "TimeLimit (TIMEOUT)");
  EXPECT_EQ(view.step, 7);
  EXPECT_EQ(look("12|PENDING|BeginTime||one").state, JobState::queued);
}

TEST_F(EndedBySlurm, AJobThatFailsBeforeAnAttemptBeginsIsShownAsOver) {
  EXPECT_EQ(look("12|FAILED|NonZeroExitCode|node1|one").state, JobState::failed);
  EXPECT_EQ(look("12|CANCELLED|None|node1|one").state, JobState::cancelled);
}

TEST_F(EndedBySlurm, AJobThatSlurmHasEndedCanBeStartedAgain) {
  jobs::begin_attempt(job_);
  EXPECT_EQ(look("12|RUNNING|None|node1|one").state, JobState::running);
  EXPECT_FALSE(requeue_job(job_, {}));
  EXPECT_EQ(look(kTimedOut).state, JobState::failed);
  EXPECT_TRUE(requeue_job(job_, {}));
  EXPECT_EQ(look("12|PENDING|None||one").state, JobState::queued);
}

// Slurm's answer is newer than the first look at the folder.
TEST_F(EndedBySlurm, AResultThatIsThereCounts) {
  std::vector<jobs::JobView> views{jobs::view_of(job_)};
  jobs::end_attempt(job_, {.end = jobs::AttemptEnd::failed,
                           .attempt = jobs::begin_attempt(job_),
                           .status = 3,
                           .reason = "no data"});
  program("squeue", "echo '12|FAILED|NonZeroExitCode|node1|one'");
  std::filesystem::remove_all(folder_ / "cache");
  EXPECT_TRUE(add_standings(views).empty());
  EXPECT_EQ(views.front().reason, "no data");
  EXPECT_EQ(views.front().status, 3);
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

}  // namespace
}  // namespace lockstep::cluster
