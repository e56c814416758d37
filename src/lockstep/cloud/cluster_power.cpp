#include "lockstep/cloud/cluster_power.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/ssh.h"

namespace lockstep::cloud {
namespace {

constexpr auto kSaveLimit = std::chrono::minutes(5);
constexpr const char* kSaveJobs = "/usr/local/sbin/lockstep-save-jobs";  // scripts/bootstrap.sh

}  // namespace

std::string cluster_behind(const std::string& profile) {
  const cluster::NamedProfile found = cluster::Profiles::of_user().find(profile);
  const ClusterRecords records = ClusterRecords::of_user();
  if (records.has(found.name)) return found.name;
  const std::string what =
      "the machines of the profile " + quote(found.name) + " cannot be started or stopped: ";
  if (found.profile.scheduler == "local")
    throw Error(ErrorCode::invalid_option, what + "it is this machine", "jobs run on it at any time");
  throw Error(ErrorCode::invalid_option, what + "no lockstep cloud create of this machine made them",
              "those who run the cluster do so; lockstep cluster show " + found.name + " shows its machines");
}

ClusterRecord start_cluster(const std::string& profile, const Watch& watch) {
  return make_provider("aws")->start(cluster_behind(profile), watch);
}

ClusterRecord stop_cluster(const std::string& profile, const Watch& watch) {
  return make_provider("aws")->stop(cluster_behind(profile), watch);
}

std::string save_jobs(const cluster::Profile& profile) {
  const cluster::CommandEnd end = cluster::run_command(
      cluster::ssh_words(
          {.login = profile.login, .words = {"sudo", "-n", kSaveJobs}, .host_key = profile.host_key}),
      {.limit = kSaveLimit});
  if (end.out_of_time) return "no answer in five minutes";
  return end.status == 0 ? "" : printable(first_line(end.errors));
}

}  // namespace lockstep::cloud
