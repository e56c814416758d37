// The machines behind a profile, started and stopped.
#pragma once

#include <string>

#include "lockstep/cloud/provider.h"
#include "lockstep/cluster/profile.h"

namespace lockstep::cloud {

/// The cluster of lockstep cloud that is behind a profile of this user; empty: behind the default one. Throws
/// invalid_option with what to do for a profile whose machines are others' to start and stop.
std::string cluster_behind(const std::string& profile);

/// As Provider::start and stop, of the cluster behind the profile.
ClusterRecord start_cluster(const std::string& profile, const Watch& watch);
ClusterRecord stop_cluster(const std::string& profile, const Watch& watch);

/// Asks all jobs of a cluster of lockstep cloud to save, over ssh to its head node, and holds them until it
/// starts again. What stood in the way; empty: they have saved.
std::string save_jobs(const cluster::Profile& profile);

}  // namespace lockstep::cloud
