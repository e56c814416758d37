// The parts of the scheduler `local`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/scheduler.h"

namespace lockstep::cluster {

std::unique_ptr<Scheduler> make_local(const Profile& profile, const std::vector<std::string>& runner);

}  // namespace lockstep::cluster
