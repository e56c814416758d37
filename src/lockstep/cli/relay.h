// Commands on jobs of a cluster that is reached through its login node: they run there, by ssh.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/cli/verb.h"
#include "lockstep/cluster/profile.h"

namespace lockstep::cli {

/// Runs the command on the login node if it concerns a profile that has one: `batch` and `cluster ...` by
/// their profile, `sweep` by its --profile or by an --output, also of its FILE.json, such as "ours:search",
/// `job ...` by a job's name such as "ours:12", and `report` and `sweep ...` by a sweep such as
/// "ours:search". Returns its exit status; nothing if the command is for this machine.
std::optional<int> relay(const Verb& verb, const Call& call, Console& console);

/// What `lockstep jobs` printed on a login node.
struct RelayedJobs {
  cluster::NamedProfile profile;
  std::string text;
};

/// `lockstep jobs` with these options on the login node of each profile that has one. A login node that does
/// not answer is a warning. Takes as long as these need to answer; at a stop it returns what it has.
std::vector<RelayedJobs> relayed_jobs(const std::vector<std::string>& options, Console& console,
                                      const std::stop_token& stop = {});

/// A job of a profile with a login node.
struct RelayedJob {
  cluster::NamedProfile profile;
  std::string job;  ///< as it is called there
  /// As `lockstep job` takes it here: "ours:12".
  std::string name() const { return profile.name + ":" + job; }
};

/// Submits what a call of `lockstep batch` for one command asks for. Throws cluster.
RelayedJob submit_there(const cluster::NamedProfile& found, const Call& batch);

/// `lockstep job attach`, whose output comes here; its exit status. Nothing after a signal, which prints
/// `notice`: the job goes on then. Throws cluster if the login node cannot be reached.
std::optional<int> attach_there(const RelayedJob& job, bool plot, const std::string& notice,
                                Console& console);

/// `lockstep job fetch`. False if it failed there, which it has said.
bool fetch_there(const RelayedJob& job, const std::filesystem::path& folder,
                 const std::vector<std::string>& options = {});

/// On the login node: takes a message of `relay` from standard input, and becomes the command that it names.
int run_relay(const Call& call, Console& console);

}  // namespace lockstep::cli
