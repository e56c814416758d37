// The sweeps below the roots, and what pages ask of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/studio/sweep_news.h"
#include "lockstep/studio/sweep_tables.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::studio {

/// Looks at the disk when a page asks. Any thread. A slow folder holds list(), and paths_of() of an id that
/// is not known yet; who waits longer than some seconds for another look gets an error (timeout).
class Sweeps {
 public:
  explicit Sweeps(std::vector<std::filesystem::path> roots) : roots_(std::move(roots)) {}

  /// [{"id", "name", "folder", "metric", "search", "going_on", "trials", "count": planned, "states":
  /// {"ended": 3}, "best", "changed"}], or "error" where a sweep cannot be read.
  Json list();

  /// Throws not_found for an unknown id.
  sweep::SweepPaths paths_of(const std::string& id);

  /// As it is now, for a page. Throws as paths_of() and SweepTables::table_of().
  sweep::Table table_of(const std::string& id) { return tables_.table_of(id, paths_of(id)); }

  SweepNews& news() { return news_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::string signature{};  // of its files
    Json about{};
  };
  std::unique_lock<std::timed_mutex> begin_looking();
  void look();
  Json about(const std::string& id, const std::filesystem::path& folder);
  std::optional<std::filesystem::path> find(const std::string& id);

  std::vector<std::filesystem::path> roots_;
  std::timed_mutex looking_;  // of the next two, while folders and files are read; taken before mutex_
  std::map<std::string, Known> known_;
  Clock::time_point next_look_{};
  std::mutex mutex_;  // of folders_; for short times
  std::map<std::string, std::filesystem::path> folders_;
  SweepTables tables_;
  SweepNews news_;
};

/// Everything of one sweep: what list() says of it, "maximize", "command", "options", "parameters" with their
/// ranges, "rows" (sweep::json_of, with all parameters as texts and the id of the trial's run as "run"),
/// "importances", "few_trials" (sweep::kFewTrials), "parallel".
Json about_sweep(const std::string& name, const sweep::SweepPaths& paths, const sweep::Table& table);

}  // namespace lockstep::studio
