// AWS ParallelCluster's configuration of a cluster, and the policy that its user needs.
#pragma once

#include <string>

#include "lockstep/base/json.h"
#include "lockstep/cloud/plan.h"
#include "lockstep/cloud/request.h"

namespace lockstep::cloud {

/// The tags by which everything of a cluster is found again.
inline constexpr const char* kClusterTag = "lockstep-cluster";
inline constexpr const char* kIdTag = "lockstep-id";
// With these another machine can write a profile.
inline constexpr const char* kTypeTag = "lockstep-type";
inline constexpr const char* kWorkersTag = "lockstep-workers";
inline constexpr const char* kUserTag = "lockstep-user";

/// What identifies a cluster and its package.
struct ClusterIdentity {
  std::string name;
  std::string id;                ///< random: two clusters of one name differ
  std::string package_file{};    ///< name of the package; empty: none
  std::string package_sha256{};  ///< its hash, which each machine checks
  std::string subnet{};          ///< found by AWS's defaults if the request has none
  std::string bucket() const { return "lockstep-" + id; }
};

/// Who logs in at the head node.
std::string login_user(Os os);

/// As JSON, of which ParallelCluster reads the YAML. The machines start when there are jobs, so a cluster
/// without jobs costs its head node and disks.
Json cluster_config(const ClusterRequest& request, const ClusterPlan& plan, const ClusterIdentity& identity);

/// What a head node or a worker does when it starts: checks and installs the package, and on the head node
/// the watchdog. It has no secret.
std::string bootstrap_script();

}  // namespace lockstep::cloud
