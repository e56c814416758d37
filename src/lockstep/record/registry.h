// Finds the run folders below a folder, and remembers what it has read of runs that are over.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/record/summary.h"

namespace lockstep::record {

struct RunList {
  std::vector<RunSummary> runs;       ///< in the order of the roots, and of their paths below each
  std::vector<std::string> warnings;  ///< what could not be read, a line for each
};

/// Reads a run again when its files have changed; runs that are over or lost need a few looks at file times.
/// One thread.
class RunRegistry {
 public:
  /// cache_folder: for what is remembered between processes, of which several may use it at once; empty:
  /// nothing is.
  explicit RunRegistry(std::filesystem::path cache_folder = default_cache_folder())
      : cache_folder_(std::move(cache_folder)) {}

  /// Every run once. Does not look into run folders and hidden folders; follows links to folders. Throws
  /// not_found or invalid_option for a root that is no folder.
  RunList list(const std::vector<std::filesystem::path>& roots) const;

  /// In the user's folder for caches; empty without one.
  static std::filesystem::path default_cache_folder();

 private:
  std::filesystem::path cache_folder_;
};

}  // namespace lockstep::record
