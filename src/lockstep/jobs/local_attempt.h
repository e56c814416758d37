// Runs an attempt at a job on this machine: the command with its surroundings, its diary, and its result.
#pragma once

#include <map>
#include <string>

#include "lockstep/jobs/job_folder.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/record/process_identity.h"

namespace lockstep::jobs {

/// JOB/attempt-N/started.json.
struct Started {
  record::ProcessIdentity runner{};
  record::ProcessIdentity command{};
  double time = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("runner", self.runner, "the process that waits for the command");
    field("command", self.command, "the command; it leads a process group");
    field("time", self.time, "seconds since 1970");
  };
};

/// Sends a signal to what an attempt that has lost its runner has left in its process group.
void signal_left(const Started& started, int signal);

/// Nothing before the command was started.
std::optional<Started> read_started(const JobPaths& paths, int64_t attempt);

/// An attempt that has begun, and the lock that makes it the only one.
struct BegunAttempt {
  JobPaths paths;
  JobSpec spec{};
  int64_t attempt = 0;
  FileLock lock;
};

/// Variables of the process that runs attempts, from which the values of a job's secrets are taken.
using Variables = std::map<std::string, std::string>;

/// Runs the command to its end and writes the attempt's result. While it runs, SIGTERM, SIGINT and SIGHUP to
/// this process are passed on to the command, which is killed if it does not end; the result then says so.
/// The whole process is used for it: its variables, its working folder and its signals. It has no other
/// threads. Returns false if a signal asked this process to end.
bool run_local_attempt(const BegunAttempt& begun, const Variables& own);

/// What became of an attempt whose processes are gone without a result, from the job's files.
AttemptResult result_of_lost(const JobPaths& paths, const JobSpec& spec, int64_t attempt);

}  // namespace lockstep::jobs
