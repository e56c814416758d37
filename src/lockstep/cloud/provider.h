// What Lockstep needs of a cloud. A provider is one file that implements Provider, and one line in
// builtin.cpp.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/cloud/cluster_state.h"
#include "lockstep/cloud/plan.h"
#include "lockstep/cloud/request.h"

namespace lockstep::cloud {

/// How far a change of a cluster is. all 0: not known.
struct Progress {
  std::string text;
  int64_t done = 0;
  int64_t all = 0;
  bool is_warning = false;  ///< something did not succeed, and the change goes on
};

/// What sees a change of a cluster while it is made. `show` is called on the caller's thread. `stop` ends the
/// wait with the error cancelled; what was begun goes on in the cloud.
struct Watch {
  std::function<void(const Progress&)> show = [](const Progress&) {};
  std::stop_token stop{};
};

/// A machine of a cluster.
struct Machine {
  std::string id;
  std::string type;
  std::string state;
  std::string address{};  ///< empty: none that is public
  bool is_head = false;
  double started = 0;  ///< seconds since 1970
};

/// Of a cluster's head node; empty: it has none.
std::string head_state(const std::vector<Machine>& machines);

/// Whether the head node is off, or is being turned off.
bool is_stopped(const std::vector<Machine>& machines);

/// A cluster as the cloud sees it now.
struct ClusterStatus {
  std::string name;
  std::string id{};
  std::string stack{};  ///< the cloud's word; empty: it does not know the cluster
  std::vector<Machine> machines{};
  std::string type{};  ///< of the workers' machines
  int64_t workers = 0;
  std::string user{};  ///< who logs in
};

/// Functions throw Error with the cloud's reason: `cluster` for what the cloud refuses or fails at,
/// invalid_option for a bad request, cancelled at a stop. What was begun goes on in the cloud; the record of
/// the cluster is written before the first thing is made there, so that remove() finds everything.
class Provider {
 public:
  virtual ~Provider() = default;

  /// What create would make, with its price. Needs no network.
  virtual ClusterPlan plan(const ClusterRequest& request) = 0;
  /// What create would hand to the cloud, as text.
  virtual std::string manifest(const std::string& name, const ClusterRequest& request) = 0;
  /// Makes a cluster, waits until it can be used, and writes its profile.
  virtual ClusterRecord create(const std::string& name, const ClusterRequest& request,
                               const Watch& watch) = 0;
  /// Waits for a cluster whose creation or resize was begun, and writes its profile.
  virtual ClusterRecord wait(const std::string& name, const Watch& watch) = 0;
  /// Clusters of this region that bear Lockstep's tag.
  virtual std::vector<ClusterStatus> list(const std::string& region) = 0;
  /// Writes the profile of a cluster that another machine made.
  virtual void adopt(const std::string& name, const std::string& region) = 0;
  virtual ClusterRecord start(const std::string& name, const Watch& watch) = 0;
  virtual ClusterRecord stop(const std::string& name, const Watch& watch) = 0;
  /// Throws as resize does before it changes anything: invalid_option if the cloud says that the cluster is
  /// stopped, and if another resize was begun whose end is not known.
  virtual void check_resize(const std::string& name) = 0;
  virtual ClusterRecord resize(const std::string& name, int64_t workers, const Watch& watch) = 0;
  /// Removes the cluster and everything that bears its tag, and proves that nothing is left. region: for a
  /// cluster of which this machine has no record. Throws cluster with the names of what is left.
  virtual void remove(const std::string& name, const std::string& region, const Watch& watch) = 0;
};

/// "aws" or "kubernetes".
std::unique_ptr<Provider> make_provider(const std::string& name);

}  // namespace lockstep::cloud
