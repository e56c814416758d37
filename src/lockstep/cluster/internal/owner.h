// Which job of a scheduler may run a job folder.
#pragma once

#include <string>

#include "lockstep/jobs/job_folder.h"

namespace lockstep::cluster {

/// Makes the scheduler's job `id` the one that may run the folder, if there is none yet. Returns the one that
/// may.
std::string own_job(const jobs::JobPaths& paths, const std::string& id);

}  // namespace lockstep::cluster
