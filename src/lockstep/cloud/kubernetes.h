// Manifests for Kubernetes. They are printed and nothing else: Lockstep does not talk to a cluster of
// Kubernetes, and what is printed was checked against schemas only.
#pragma once

#include "lockstep/cloud/provider.h"

namespace lockstep::cloud {

class KubernetesProvider : public Provider {
 public:
  ClusterPlan plan(const ClusterRequest& request) override;
  /// A JobSet (jobset.x-k8s.io/v1alpha2) with a pod for each machine.
  std::string manifest(const std::string& name, const ClusterRequest& request) override;
  ClusterRecord create(const std::string& name, const ClusterRequest& request, const Watch& watch) override;
  ClusterRecord wait(const std::string& name, const Watch& watch) override;
  std::vector<ClusterStatus> list(const std::string& region) override;
  void adopt(const std::string& name, const std::string& region) override;
  ClusterRecord start(const std::string& name, const Watch& watch) override;
  ClusterRecord stop(const std::string& name, const Watch& watch) override;
  void check_resize(const std::string& name) override;
  ClusterRecord resize(const std::string& name, int64_t workers, const Watch& watch) override;
  void remove(const std::string& name, const std::string& region, const Watch& watch) override;
};

}  // namespace lockstep::cloud
