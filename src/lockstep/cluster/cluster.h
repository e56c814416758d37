// A cluster as a program sees it: the profile, and the machines behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/cluster/nodes.h"
#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

/// How Cluster::wait waits.
struct WaitForNodes {
  int64_t nodes = 0;  ///< 0: those of a job of the profile
  std::chrono::milliseconds limit = std::chrono::hours(24 * 365);
  std::function<void(int64_t up)> tell{};  ///< whenever the number has changed, also at first
  std::stop_token stop{};
};

/// A handle: copies are of the same cluster. Any thread may call it. Nothing is kept open.
class Cluster {
 public:
  explicit Cluster(NamedProfile named) : named_(std::move(named)) {}

  const std::string& name() const { return named_.name; }
  const Profile& profile() const { return named_.profile; }
  /// Its machines now, through the login node if the profile has one. Throws cluster.
  std::vector<Node> show() const { return nodes_of(profile()); }
  /// How many of them take a job: also those that are off and that the scheduler starts for one. Throws
  /// cluster.
  int64_t nodes_up() const;
  /// Until so many are up. False at the limit or after a stop. Throws cluster.
  bool wait(const WaitForNodes& options = {}) const;
  /// As `lockstep cluster start` and `stop`, by that program: for machines that `lockstep cloud` made.
  /// Returns what it says. Throws cluster with what to do for machines that are not ours to start, not_found.
  std::string start() const;
  std::string stop() const;
  /// As `lockstep cluster validate`: tries the profile on its machines, through the login node if it has one,
  /// and returns what became of each stage. Throws cluster with the stage that failed and what to do.
  std::string validate() const;
  /// The default from now on, as `lockstep cluster default NAME`.
  void make_default() const { Profiles::of_user().set_default(name()); }

 private:
  NamedProfile named_;
};

}  // namespace lockstep::cluster
