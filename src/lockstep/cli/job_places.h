// Where a job is queued: the queue of this machine, or the scheduler of its profile.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cli {

/// The words that start a runner of the local queue; its root follows.
std::vector<std::string> runner_program();

/// Lets jobs of this machine start that may, and settles those whose processes are gone.
void wake_local_queue(const std::filesystem::path& root);

/// The same for a command that only reads: where the queue cannot be written it warns.
void look_at_local_queue(const std::filesystem::path& root, Console& console);

/// Puts in what schedulers know of jobs that are not over. A scheduler that cannot be reached is a warning.
/// At a stop it returns at once.
void add_standings(std::vector<jobs::JobView>& views, Console& console, const std::stop_token& stop = {});

/// The job now, with what its scheduler knows.
jobs::JobView job_now(const jobs::JobPaths& paths, Console& console);

/// Looks at jobs again and again; a scheduler that stays out of reach is one warning. At a stop a look ends
/// at once with what the job's folder tells.
class JobWatch {
 public:
  explicit JobWatch(Console& console, std::stop_token stop = {})
      : console_(console), stop_(std::move(stop)) {}
  jobs::JobView now(const jobs::JobPaths& paths);

 private:
  Console& console_;
  const std::stop_token stop_;
  std::string said_;
};

/// "running", "unreadable".
std::string state_word(const jobs::JobView& view);

}  // namespace lockstep::cli
