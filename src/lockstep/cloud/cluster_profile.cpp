#include "lockstep/cloud/internal/cluster_profile.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cloud {
namespace {

constexpr const char* kProgram = "/usr/local/bin/lockstep";

Machine machine_of(const Json& json) {
  return {.id = json.value("id", ""),
          .type = json.value("type", ""),
          .state = json.value("state", ""),
          .address = json.value("address", ""),
          .is_head = json.value("head", false),
          .started = json.value("started", 0.0)};
}

}  // namespace

std::vector<Machine> machines_of(const Json& list) {
  std::vector<Machine> machines;
  for (const Json& one : list) machines.push_back(machine_of(one));
  return machines;
}

std::string head_state(const std::vector<Machine>& machines) {
  for (const Machine& machine : machines) {
    if (machine.is_head) return machine.state;
  }
  return "";
}

bool is_stopped(const std::vector<Machine>& machines) {
  const std::string head = head_state(machines);
  return head == "stopping" || head == "stopped";
}

std::string login_of(const std::string& name, const std::string& user, const std::vector<Machine>& machines) {
  for (const Machine& machine : machines) {
    if (machine.is_head && !machine.address.empty()) return user + "@" + machine.address;
  }
  throw Error(ErrorCode::cluster, "the head node of " + quote(name) + " has no public address",
              "start it, or use a --subnet that gives public addresses");
}

cluster::Profile slurm_profile(const ClusterPlan& planned, const std::string& login) {
  cluster::Profile profile;
  profile.scheduler = "slurm";
  profile.login = login;
  profile.program = kProgram;
  profile.partition = kPartition;
  profile.nodes = planned.machines;
  profile.workers = planned.workers;
  profile.gpus = planned.gpu.empty() ? 0 : planned.workers_per_machine;
  profile.job_folder = "/shared/lockstep-jobs";
  return profile;
}

}  // namespace lockstep::cloud
