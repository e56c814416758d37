// The allocation of Slurm in which a program runs, as a place for its pool.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

/// The scheduler that starts a step in the allocation, and submits nothing. It is in no profile of a user.
inline constexpr const char* kSlurmStep = "slurm-step";

/// With all of its machines and tasks, and no idle limit that counts; nothing if this program is in none
/// (SLURM_JOB_ID). A program that srun has started is in one, too.
std::optional<Profile> own_allocation();

/// The words before a program that run it once for each task of the allocation, in a step of this name, which
/// no other one has.
std::vector<std::string> step_words(const Profile& own, const std::string& name);

/// Sends SIGTERM to the tasks of the step of this name, which srun itself does not pass on. Nothing if there
/// is none. Throws cluster.
void end_step(const std::string& name);

}  // namespace lockstep::cluster
