// Where a job is queued: the queue of this machine, or the scheduler of its profile.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cli {

/// JOB/submission.json, of a job of another scheduler than the local queue.
struct SubmittedJob {
  std::string name{};
  std::string id{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "of no other job of the scheduler");
    field("id", self.id, "the scheduler's; empty: it has not answered yet");
  };
};

/// The words that start a runner of the local queue; its root follows.
std::vector<std::string> runner_program();

/// Gives a job, whose folder is made, to the scheduler of its profile. Throws cluster.
void submit_to_scheduler(const jobs::JobPaths& paths, const jobs::JobSpec& spec,
                         const cluster::Profile& profile);

/// Ends it. False if it was over before.
bool cancel_job(const jobs::JobPaths& paths);

/// Makes it start again. False if it is not over.
bool requeue_job(const jobs::JobPaths& paths);

/// Lets jobs of this machine start that may, and settles those whose processes are gone.
void wake_local_queue(const std::filesystem::path& root);

/// Puts in what schedulers know of jobs that are not over. A scheduler that cannot be reached is a warning.
void add_standings(std::vector<jobs::JobView>& views, Console& console);

/// The job now, with what its scheduler knows.
jobs::JobView job_now(const jobs::JobPaths& paths, Console& console);

/// "running", "unreadable".
std::string state_word(const jobs::JobView& view);

/// Of a state in which nothing more happens by itself.
bool is_job_over(const jobs::JobView& view);

}  // namespace lockstep::cli
