// The jobs that work on a sweep with a profile: each trains one trial after the other.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// Trials at the same time: --trials, else the profile's workers divided by --workers. Throws not_found for
/// an unknown profile, invalid_option for one with a login node.
int64_t jobs_of_sweep(const sweep::SweepSpec& spec);

/// Whether trials are on this machine, so that they see its files.
bool are_trials_here(const sweep::SweepSpec& spec);

/// Submits the jobs, or lets those start again that are over. Returns their ids. They go on without this
/// program.
std::vector<std::string> submit_sweep(const sweep::SweepPaths& paths, const sweep::SweepSpec& spec);

/// Whether one of the sweep's jobs waits or goes on. Lets jobs of this machine start that may.
bool has_jobs_left(const sweep::SweepPaths& paths);

/// Asks the programs that work on the sweep to stop, or its jobs that wait or are about to begin. Throws
/// not_found if there are none.
void ask_sweep_to_stop(const sweep::SweepPaths& paths);

}  // namespace lockstep::cli
