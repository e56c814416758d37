// Words for Slurm's commands, and what is read from their answers. See also slurm_test.cpp.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/cluster/slurm_step.h"

namespace lockstep::cluster {
namespace {

using testing::AllOf;
using testing::Contains;

TEST(SlurmOptions, AFolderWithAPercentSignIsNoPatternOfALog) {
  EXPECT_THAT(sbatch_options({.name = "x", .folders = {"/data/50%u/1"}}),
              AllOf(Contains("--output=/data/50%%u/1/slurm.log"), Contains("--chdir=/data/50%u/1")));
}

// Srun would take over --export=NONE, with which some sites have jobs submitted.
TEST(SlurmSteps, HaveTheVariablesOfTheirStarter) {
  EXPECT_THAT(srun_words({.nodes = 2}), Contains("--export=ALL"));
  EXPECT_THAT(step_words({.nodes = 2}, "x"), Contains("--export=ALL"));
}

// As Slurm 22.05 says it while the script of the job still runs.
TEST(SlurmJob, IsCancelledIfNothingElseEndsIt) {
  const std::string cancelled = "JobId=9 JobName=x JobState=COMPLETING Reason=None Requeue=1 Restarts=0 ";
  EXPECT_TRUE(is_being_cancelled(cancelled, "0"));
  EXPECT_TRUE(is_being_cancelled(cancelled + "PreemptTime=None ", "0"));
  EXPECT_FALSE(is_being_cancelled(cancelled + "PreemptTime=2026-11-29T12:09:02 ", "0"));
  EXPECT_FALSE(is_being_cancelled("JobId=9 JobState=COMPLETING Reason=None Restarts=1 ", "0"));
  EXPECT_FALSE(is_being_cancelled("JobId=9 JobState=COMPLETING Reason=TimeLimit Restarts=0 ", "0"));
  EXPECT_FALSE(is_being_cancelled("JobId=9 JobState=RUNNING Reason=None Restarts=0 ", "0"));
  EXPECT_FALSE(is_being_cancelled("", "0"));
}

}  // namespace
}  // namespace lockstep::cluster
