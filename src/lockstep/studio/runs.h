// The runs below the roots, and what pages ask of them. A page names a run by an id that is looked up here,
// never by a path.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/record/registry.h"
#include "lockstep/studio/event_stream.h"
#include "lockstep/studio/run_log.h"

namespace lockstep::studio {

/// By which pages name a folder of a run or a sweep. folder: absolute.
std::string id_of(const std::filesystem::path& folder);

/// A folder's name below the root that it is in, as people call it.
std::string name_of(const std::vector<std::filesystem::path>& roots, const std::filesystem::path& folder);

/// Looks at the disk on a thread of its own while pages ask. Any thread.
class Runs {
 public:
  /// Publishes {"runs": version} when the list has changed and {"run": id} when a run was added to that a
  /// page has asked for a moment ago. Throws not_found for a root that is no folder.
  Runs(std::vector<std::filesystem::path> roots, LogIndexes indexes, EventStream& events);
  ~Runs();
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  const std::vector<std::filesystem::path>& roots() const { return roots_; }

  /// {"version", "whole", "ready", "runs": [...], "removed": [ids], "warnings"} in JSON: what has changed
  /// since a version, or all runs if it is 0.
  std::string list_since(int64_t version);

  /// Looks at the disk now.
  void look();

  /// These throw not_found for an unknown id.
  std::filesystem::path folder_of(const std::string& id) const;
  record::RunSummary summary_of(const std::string& id) const;
  std::shared_ptr<RunLog> log_of(const std::string& id);

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    record::RunSummary summary;
    std::filesystem::path folder;  // absolute
    std::string text;              // in JSON
    int64_t version = 0;
  };
  struct Watched {
    std::shared_ptr<RunLog> log;
    Clock::time_point asked;
  };
  void work(const std::stop_token& stop);
  void read_logs();
  void forget_logs();

  std::vector<std::filesystem::path> roots_;
  LogIndexes indexes_;
  EventStream& events_;
  record::RunRegistry registry_;
  std::mutex looking_;  // of the thread that lists
  mutable std::mutex mutex_;
  std::map<std::string, Known> runs_;
  std::vector<std::pair<int64_t, std::string>> removed_;  // version, id
  std::vector<std::string> warnings_;
  int64_t version_ = 0;
  bool is_ready_ = false;    // the disk was looked at
  Clock::time_point asked_;  // when a page asked for the list
  Clock::duration look_took_{};
  std::map<std::string, Watched> logs_;
  std::condition_variable_any changed_;
  bool is_reading_ = false;  // a long log, in parts; of the thread
  std::jthread thread_;
};

}  // namespace lockstep::studio
