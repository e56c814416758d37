// The machines of a cluster as scripts/aws.py tells them, and the profile with which jobs go there.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/cloud/plan.h"
#include "lockstep/cloud/provider.h"
#include "lockstep/cluster/profile.h"

namespace lockstep::cloud {

inline constexpr const char* kPartition = "workers";

std::vector<Machine> machines_of(const Json& list);

/// user@address of the head node, which is where jobs are submitted. Throws cluster if it has no address.
std::string login_of(const std::string& name, const std::string& user, const std::vector<Machine>& machines);

cluster::Profile slurm_profile(const ClusterPlan& planned, const std::string& login);

}  // namespace lockstep::cloud
