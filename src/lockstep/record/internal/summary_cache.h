// Summaries of the runs below one root that nobody writes any more, in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lockstep/record/summary.h"

namespace lockstep::record {

/// What a run's files look like from outside: it changes when the run is written.
struct RunSignature {
  bool may_be_run = false;  ///< it has files with a run's names
  uint64_t files = 0;       ///< times, sizes and inodes of what a run says of itself
  uint64_t folders = 0;     ///< times of its folders, which change when files are added or removed
  bool operator==(const RunSignature&) const = default;
};

RunSignature signature_of(const std::filesystem::path& run_folder);

/// A damaged file, a damaged line and a line of another version count as absent.
class SummaryCache {
 public:
  /// file: empty: nothing is read or written.
  explicit SummaryCache(std::filesystem::path file);
  SummaryCache(const SummaryCache&) = delete;
  SummaryCache& operator=(const SummaryCache&) = delete;

  /// name: of the run below the root. The summary's folder is this name.
  std::optional<RunSummary> find(const std::string& name, const RunSignature& signature);
  /// For the next time.
  void keep(const std::string& name, const RunSignature& signature, const RunSummary& summary);
  /// Writes what was found and kept, if that is not what the file has. A file that cannot be written is left
  /// alone: the summaries are read again.
  void save();

 private:
  std::filesystem::path file_;
  std::string text_;
  std::unordered_map<uint64_t, std::string_view> lines_;  // by the hash of the name
  std::map<std::string, std::string> kept_;               // lines to write, by name
  bool changed_ = false;
};

}  // namespace lockstep::record
