#include "lockstep/cluster/submitted_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::cluster {
namespace {

using jobs::JobState;
using testing::HasSubstr;

// The machine may have another name since it was started again, or be gone.
TEST(CancelJob, EndsAJobInTheQueueOfAnotherMachine) {
  const test::TemporaryFolder root;
  const std::string elsewhere = "not-" + host_name();
  const jobs::JobPaths job = jobs::make_job(root.path(), {.command = {"true"}, .host = elsewhere});
  EXPECT_THAT(jobs::view_of(job).reason, HasSubstr(elsewhere));
  EXPECT_TRUE(cancel_job(job, {}));
  EXPECT_TRUE(jobs::is_over(jobs::view_of(job)));
  EXPECT_EQ(jobs::view_of(job).state, JobState::cancelled);
  EXPECT_TRUE(jobs::read_result(job)) << "for jobs that follow it";
  EXPECT_FALSE(cancel_job(job, {}));
}

TEST(CancelJob, DoesNotWaitForAnotherMachine) {
  const test::TemporaryFolder root;
  const jobs::JobPaths job = jobs::make_job(root.path(), {.command = {"true"}, .host = "not-" + host_name()});
  jobs::begin_attempt(job);
  const auto lock = jobs::FileLock::try_take(job.lock());
  ASSERT_TRUE(lock);
  EXPECT_TRUE(cancel_job(job, {}));
  EXPECT_TRUE(jobs::is_marked_cancelled(job));
  EXPECT_EQ(jobs::view_of(job).state, JobState::running);
}

// A job that another program made, or one of a machine without a name.
TEST(CancelJob, AJobWithoutAHostIsInTheQueueOfThisMachine) {
  const test::TemporaryFolder root;
  const jobs::JobPaths job = jobs::make_job(root.path(), {.command = {"true"}});
  EXPECT_EQ(jobs::view_of(job).reason, "");
  jobs::end_job(job, jobs::AttemptEnd::failed, "");
  EXPECT_TRUE(requeue_job(job, {"true"}));
  EXPECT_EQ(jobs::view_of(job).state, JobState::queued);
  EXPECT_TRUE(cancel_job(job, {"true"}));
  EXPECT_EQ(jobs::view_of(job).state, JobState::cancelled);
}

TEST(CheckJobsFolder, RefusesAProfileWhoseJobsAreElsewhere) {
  const test::TemporaryFolder root;
  const std::string folder = root.path().string();
  EXPECT_NO_THROW(check_jobs_folder({}, folder));
  EXPECT_NO_THROW(check_jobs_folder({.job_folder = folder + "/"}, folder));
  try {
    check_jobs_folder({.job_folder = folder + "/shared"}, folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("export LOCKSTEP_JOBS=" + folder + "/shared"));
  }
}

}  // namespace
}  // namespace lockstep::cluster
