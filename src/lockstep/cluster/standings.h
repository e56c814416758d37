// What schedulers know of jobs, in the views of these.
#pragma once

#include <string>
#include <vector>

#include "lockstep/jobs/job_list.h"

namespace lockstep::cluster {

/// Puts in what schedulers know of jobs that are not over. Each profile is asked once. Returns a line for
/// each profile whose scheduler cannot be reached; its jobs stay as their folders tell.
std::vector<std::string> add_standings(std::vector<jobs::JobView>& views);

}  // namespace lockstep::cluster
