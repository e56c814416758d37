// One attempt at a job in an allocation of Slurm: the program that a job's batch script becomes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace lockstep::cluster {

/// Runs the command of the job in `folder` on all machines of this allocation, and returns the exit status
/// for Slurm. Before the time limit (SIGUSR1), or when the machines are taken (SIGTERM), the ranks are asked
/// to save, and Slurm is asked to start the job again; so it is when ranks were killed or lost. A job that
/// has made no step in three attempts is not started again. `say` writes lines to the log of the job. Call it
/// before other threads are made.
int run_slurm_attempt(const std::filesystem::path& folder,
                      const std::function<void(const std::string&)>& say);

}  // namespace lockstep::cluster
