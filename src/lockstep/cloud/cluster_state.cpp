#include "lockstep/cloud/cluster_state.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"

namespace lockstep::cloud {
namespace {

constexpr double kHour = 3600;
constexpr int64_t kMostRecord = int64_t{4} << 20;
constexpr const char* kRecordFile = "cluster.json";

bool is_open(const ClusterRecord& record) { return !record.spells.empty() && record.spells.back().to <= 0; }

}  // namespace

double most_dollars(const ClusterRecord& record, double now) {
  double running = 0, dollars = 0;
  for (const Spell& spell : record.spells) {
    const double lasted = std::max(0.0, (spell.to > 0 ? spell.to : now) - spell.from);
    running += lasted;
    dollars += lasted * spell.dollars_per_hour;
  }
  const double there = std::max(running, now - record.created);
  return (dollars + (there - running) * record.dollars_per_hour_stopped) / kHour;
}

double most_dollars_per_hour(const ClusterRecord& record) {
  return std::max(record.dollars_per_hour, record.resize.dollars_per_hour);
}

void set_running(ClusterRecord& record, bool running, double now) {
  if (running && !is_open(record)) record.spells.push_back({now, 0, most_dollars_per_hour(record)});
  if (!running && is_open(record)) record.spells.back().to = now;
}

void set_resize(ClusterRecord& record, const Resize& resize, double now) {
  const bool goes_on = is_open(record);
  set_running(record, false, now);
  record.resize = resize;
  set_running(record, goes_on, now);
}

ClusterRecords ClusterRecords::of_user() {
  const std::filesystem::path folder = user_state_folder();
  if (folder.empty())
    throw Error(ErrorCode::io, "there is no folder for what Lockstep remembers about clusters",
                "set HOME or XDG_STATE_HOME to an absolute path");
  return ClusterRecords(folder / "lockstep" / "cloud");
}

std::vector<ClusterRecord> ClusterRecords::list() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (std::filesystem::exists(entry.path() / kRecordFile, error)) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  std::vector<ClusterRecord> records;
  for (const std::string& name : names) records.push_back(find(name));
  return records;
}

bool ClusterRecords::has(const std::string& name) const {
  std::error_code error;
  return std::filesystem::exists(folder_of(name) / kRecordFile, error);
}

ClusterRecord ClusterRecords::find(const std::string& name) const {
  check_cluster_name(name);
  const std::filesystem::path file = folder_of(name) / kRecordFile;
  if (!has(name)) {
    std::vector<std::string> names;
    for (const ClusterRecord& record : list()) names.push_back(record.name);
    throw Error(
        ErrorCode::not_found, "this machine made no cluster " + quote(name),
        names.empty() ? "lockstep cloud list --region REGION asks AWS" : "there is " + join(names, ", "));
  }
  ClusterRecord record;
  try {
    read_json(parse_json(read_file(file, kMostRecord)), record, quote(file.string()));
  } catch (const Json::exception& damage) {
    throw Error(ErrorCode::corrupt_data, quote(file.string()) + " is damaged: " + damage.what());
  }
  return record;
}

std::optional<jobs::FileLock> ClusterRecords::try_lock(const std::string& name) const {
  check_cluster_name(name);
  make_folders(folder_);
  return jobs::FileLock::try_take_where_possible(folder_ / (name + ".lock"));
}

jobs::FileLock ClusterRecords::lock(const std::string& name) const {
  if (auto lock = try_lock(name)) return *std::move(lock);
  throw Error(ErrorCode::invalid_option,
              "another command makes, changes or removes the cluster " + quote(name),
              "repeat this command when that one has ended");
}

void ClusterRecords::save(const ClusterRecord& record) const {
  make_folders(folder_of(record.name));
  write_file_atomic(folder_of(record.name) / kRecordFile, to_json(record).dump(2) + "\n");
}

void ClusterRecords::remove(const std::string& name) const {
  check_cluster_name(name);
  std::error_code error;
  std::filesystem::remove_all(folder_of(name), error);
  if (error) throw errno_error(error.value(), "remove", folder_of(name).string());
}

}  // namespace lockstep::cloud
