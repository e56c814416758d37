// Files with what was read of long logs, so that a run is shown at once the next time. They are in studio's
// own cache, never in a run's folder, and may be removed at any time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/record/follower.h"
#include "lockstep/studio/log_contents.h"

namespace lockstep::studio {

/// The columns of an index that were not read yet. A curve needs two of them, and a page shows few curves.
class UnreadColumns {
 public:
  struct Column {
    std::string kind;  ///< of its track
    std::string name;  ///< "step", "epoch", "time", or "values." and the value's name
    uint64_t points = 0;
    int64_t place = 0;  ///< in the file
    uint64_t hash = 0;
  };

  UnreadColumns() = default;
  UnreadColumns(OpenFile file, std::vector<Column> columns)
      : file_(std::make_unique<OpenFile>(std::move(file))), columns_(std::move(columns)) {}

  bool is_empty() const { return columns_.empty(); }
  /// Reads these columns of a track, if they were not read yet. Returns whether they are whole.
  bool read(LogContents& contents, const std::string& kind, const std::vector<std::string>& names);
  /// The same with all columns.
  bool read_all(LogContents& contents);

 private:
  std::unique_ptr<OpenFile> file_;
  std::vector<Column> columns_;
};

struct LogIndex {
  std::vector<record::LogPlace> places{};
  LogContents contents{};  ///< all but the numbers in its tracks
  UnreadColumns columns{};
};

/// Any thread; also several processes.
class LogIndexes {
 public:
  /// folder: empty: nothing is read or written.
  explicit LogIndexes(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// $LOCKSTEP_CACHE/curves, or in the user's caches. Empty if there is no such folder.
  static std::filesystem::path default_folder();

  /// Nothing if there is none for the logs that are there now, or if its head is damaged.
  std::optional<LogIndex> read(const std::filesystem::path& run_folder) const;

  /// Replaces the run's index, and removes the oldest ones when they are more than 1 GB. A disk that is
  /// nearly full is left alone, and so is an index that cannot be written.
  void write(const std::filesystem::path& run_folder, const std::vector<record::LogPlace>& places,
             const LogContents& contents) const;

 private:
  std::filesystem::path file_of(const std::filesystem::path& run_folder) const;

  std::filesystem::path folder_;
};

}  // namespace lockstep::studio
