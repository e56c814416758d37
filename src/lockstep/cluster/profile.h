// Where jobs run and with what: a profile. `local` is always there; others are files NAME.json in the project
// (.lockstep/clusters) or in the user's folder ($XDG_CONFIG_HOME/lockstep/clusters).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"

namespace lockstep::cluster {

struct Profile {
  std::string scheduler = "local";
  std::string login{};
  std::string host_key{};
  std::string program = "lockstep";
  std::string partition{};
  std::string account{};
  int64_t nodes = 1;
  int64_t workers = 0;
  int64_t cores = 0;
  int64_t gpus = 0;
  std::string memory{};
  std::string time{};
  int64_t signal_before = 60;
  std::vector<std::string> options{};
  std::vector<std::string> modules{};
  std::vector<std::string> environment{};
  std::vector<std::string> secrets{};
  std::vector<std::string> additional_paths{};
  std::string job_folder{};
  int64_t idle_limit = 600;
  std::string fast_multinode = "auto";
  std::string network_interface{};

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Cluster");
    field("scheduler", self.scheduler, "what starts jobs: local or slurm");
    field("login", self.login,
          "user@host of the login node, reached by ssh; empty: this machine has the scheduler's commands");
    field("host-key", self.host_key,
          "ssh's public key of the login node, such as \"ssh-ed25519 AAAA...\"; empty: known_hosts must have "
          "it",
          also("host_key"));
    field("program", self.program, "the program lockstep on the cluster; a name is searched for in PATH");
    field("partition", self.partition, "partition (queue) of the scheduler; empty: its default");
    field("account", self.account, "account that the scheduler charges; empty: its default");
    field("options", self.options, "further options of the scheduler's command, separated by commas");
    field("Machines of a job");
    field("nodes", self.nodes, "number of machines", between(1, 100'000));
    field("workers", self.workers,
          "number of workers on all machines; 0: one on each machine, or one for each GPU",
          between(0, 1'000'000));
    field("cores", self.cores, "cores of each worker; 0: the scheduler's default", between(0, 4096));
    field("gpus", self.gpus, "GPUs on each machine", between(0, 64));
    field("memory", self.memory, "memory on each machine, such as 16G; empty: the scheduler's default");
    field("time", self.time, "time limit, such as 30 (minutes) or 1:30:00; empty: the scheduler's default");
    field("signal-before", self.signal_before,
          "seconds before the time limit at which a run saves and asks for more time", between(1, 86'400));
    field("Surroundings of a worker");
    field("modules", self.modules, "environment modules to load, separated by commas");
    field("environment", self.environment, "variables to set, NAME=VALUE, separated by commas");
    field(
        "secrets", self.secrets,
        "names of variables, separated by commas; their values are taken from the environment of the program "
        "that submits, and are in no file of Lockstep");
    field("additional-paths", self.additional_paths,
          "folders that are first in PATH and LD_LIBRARY_PATH, separated by commas");
    field("job-folder", self.job_folder,
          "folder of the jobs, on a disk that all machines see; empty: lockstep-jobs in the home folder");
    field("idle-limit", self.idle_limit, "seconds after which an idle pool ends", between(1, 604'800));
    field("Network");
    field("fast-multinode", self.fast_multinode,
          "GPUs of several machines: on (NCCL, or an error), off (sockets), auto", also("fast_multinode"));
    field(
        "network-interface", self.network_interface,
        "network interface between machines (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME); empty: theirs to find",
        also("network_interface"));
  };
};

/// A profile's name and where it comes from.
struct NamedProfile {
  std::string name;
  Profile profile{};
  std::filesystem::path file{};  ///< empty for `local`
  bool is_default = false;
  std::string damage{};  ///< why the file cannot be read, in a list; empty: it can
};

/// The files of profiles, as one user in one project sees them. Reads them at each call.
class Profiles {
 public:
  /// own: the user's folder, may be empty; project: a folder in which, or above which, .lockstep/clusters may
  /// be.
  Profiles(std::filesystem::path own, const std::filesystem::path& project);
  /// For this user in the working folder.
  static Profiles of_user();

  /// `local` first, then by name. One in the project hides one of the user's. A file that cannot be read has
  /// its place with the reason.
  std::vector<NamedProfile> list() const;
  /// Empty: the default. Throws not_found with the names that there are, corrupt_data for a bad file.
  NamedProfile find(const std::string& name) const;
  std::string default_name() const;
  /// Throws not_found if there is none of the name.
  void set_default(const std::string& name) const;
  /// Writes the user's file. Throws invalid_option for a name that is no file's, a profile that cannot be
  /// used, or one that the project's would hide.
  std::filesystem::path save(const std::string& name, const Profile& profile) const;
  /// Throws invalid_option if the project has a profile of this name.
  void check_not_hidden(const std::string& name) const;
  /// Removes the user's file, also one that cannot be read.
  void remove(const std::string& name) const;

 private:
  NamedProfile locate(const std::string& name) const;
  NamedProfile find_default() const;

  std::filesystem::path own_;
  std::filesystem::path project_;  ///< the folder of profiles; empty: none
};

/// Throws corrupt_data naming the file, or invalid_option for a value.
Profile read_profile(const std::filesystem::path& file);

/// Throws invalid_option for what no scheduler takes: values that the fields alone do not show to be wrong.
void check_profile(const Profile& profile);

/// Processes that a job starts: the workers, or one on each machine or for each GPU.
int64_t ranks_of(const Profile& profile);

/// "NAME=value" for the profile's environment, network and additional paths, without its secrets.
std::vector<std::string> worker_environment(const Profile& profile);

}  // namespace lockstep::cluster
