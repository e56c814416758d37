// The allocation of Slurm in which a program runs, as a place for its pool.
#pragma once

#include <optional>

#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

/// The scheduler that starts a step in the allocation, and submits nothing. It is in no profile of a user.
inline constexpr const char* kSlurmStep = "slurm-step";

/// With all of its machines and tasks, and no idle limit that counts; nothing if this program is in none
/// (SLURM_JOB_ID). A program that srun has started is in one, too.
std::optional<Profile> own_allocation();

}  // namespace lockstep::cluster
