// The parts of a program that runs as the job of a task, or that looks after the queue of this machine.
#pragma once

#include <string>
#include <vector>

#include "lockstep/pool/session.h"
#include "lockstep/pool/task.h"

namespace lockstep::pool {

/// Begins the words with which a job starts its program again.
inline constexpr const char* kJobArgument = "--lockstep-job";
inline constexpr const char* kRunnerArgument = "--lockstep-queue-runner";

/// Throws invalid_option if this process is a rank of a job (its words begin with kJobArgument) that another
/// build of the program has submitted.
void check_job_build(const std::vector<std::string>& words);

/// The part of a program that was started by kJobArgument: runs the task on all workers of its job, and
/// writes rank 0's result. Returns the exit status.
int run_job_task(Session& session, const TaskTable& tasks);

/// The part of a program that was started by kRunnerArgument.
void run_job_runner(const std::string& root);

}  // namespace lockstep::pool
