// What this machine remembers about clusters that it made, in a folder of its own. Written before anything is
// made in the cloud. It has no keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cloud/request.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::cloud {

enum class ClusterPhase { creating, running, stopped, failed, removing };
constexpr std::array<const char*, 5> enum_names(ClusterPhase) {
  return {"creating", "running", "stopped", "failed", "removing"};
}

/// A time in which the cluster could run machines, at one rate.
struct Spell {
  double from = 0;              ///< seconds since 1970
  double to = 0;                ///< 0: it goes on
  double dollars_per_hour = 0;  ///< with all machines on
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("from", self.from);
    field("to", self.to);
    field("dollars_per_hour", self.dollars_per_hour);
  };
};

/// A change of the number of workers that was begun, and of which this machine does not know the end.
struct Resize {
  int64_t workers = 0;          ///< as the user asked; 0: none was begun
  double dollars_per_hour = 0;  ///< with all machines of the changed cluster on
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("workers", self.workers);
    field("dollars_per_hour", self.dollars_per_hour);
  };
};

struct ClusterRecord {
  std::string name{};
  std::string id{};
  std::string provider = "aws";
  ClusterPhase phase = ClusterPhase::creating;
  std::string type{};  ///< as the plan chose it
  int64_t machines = 0;
  std::string subnet{};
  std::string package_file{};
  std::string package_sha256{};
  double created = 0;
  double dollars_per_hour = 0;          ///< with all machines on
  double dollars_per_hour_stopped = 0;  ///< disks
  std::vector<Spell> spells{};
  Resize resize{};
  ClusterRequest request{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name);
    field("id", self.id);
    field("provider", self.provider);
    field("phase", self.phase);
    field("type", self.type);
    field("machines", self.machines);
    field("subnet", self.subnet);
    field("package_file", self.package_file);
    field("package_sha256", self.package_sha256);
    field("created", self.created);
    field("dollars_per_hour", self.dollars_per_hour);
    field("dollars_per_hour_stopped", self.dollars_per_hour_stopped);
    field("spells", self.spells);
    field("resize", self.resize);
    field("request", self.request);
  };
};

/// What the cluster has cost at most until `now`: all its machines in its spells, its disks at other times.
double most_dollars(const ClusterRecord& record, double now);

/// What an hour costs at most with all machines on: during a resize, of the smaller and the larger cluster
/// the one that costs more.
double most_dollars_per_hour(const ClusterRecord& record);

/// Begins or ends a spell.
void set_running(ClusterRecord& record, bool running, double now);

/// Begins (workers above 0) or ends a resize. A spell that is open goes on at the rate that holds from `now`.
void set_resize(ClusterRecord& record, const Resize& resize, double now);

class ClusterRecords {
 public:
  explicit ClusterRecords(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// $XDG_STATE_HOME/lockstep/cloud, else ~/.local/state/lockstep/cloud. Throws io if there is neither.
  static ClusterRecords of_user();

  /// By name. A record that cannot be read is an error that names its file.
  std::vector<ClusterRecord> list() const;
  bool has(const std::string& name) const;
  /// Held by the command that makes, changes or removes the cluster, or writes what became of it. Throws
  /// invalid_option while another command of this machine holds it.
  jobs::FileLock lock(const std::string& name) const;
  /// Nothing while another command holds it.
  std::optional<jobs::FileLock> try_lock(const std::string& name) const;
  /// Throws not_found with the names that there are.
  ClusterRecord find(const std::string& name) const;
  void save(const ClusterRecord& record) const;
  void remove(const std::string& name) const;
  /// The folder of one cluster's files.
  std::filesystem::path folder_of(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

}  // namespace lockstep::cloud
