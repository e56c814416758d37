// What schedulers know of jobs, in the views of these.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/jobs/job_list.h"

namespace lockstep::cluster {

/// Puts in what schedulers know of jobs that are not over. Each profile is asked once. Returns a line for
/// each profile whose scheduler cannot be reached, and for each job whose files are damaged; these jobs stay
/// as their folders tell. At a stop it returns at once, and jobs that were not asked for yet stay so too.
std::vector<std::string> add_standings(std::vector<jobs::JobView>& views, const std::stop_token& stop = {});

}  // namespace lockstep::cluster
