// The folder into which a sweep is fetched. Nothing that a login node sends leads out of it, or becomes part
// of it without having been asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/cli/sweep_files.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/sweep/fetched_sweep.h"

namespace lockstep::cli {

/// One thread.
class SweepCopy {
 public:
  /// Marks the folder, which is made, as a copy. Throws invalid_option, before it writes, if it has anything
  /// else than a copy of this sweep, or if another program fetches into it.
  ///   typed  the sweep, as the user has named it
  SweepCopy(std::filesystem::path folder, const sweep::FetchedSweep& from, const std::string& typed);

  const std::filesystem::path& folder() const { return folder_; }

  using IsChosen = std::function<bool(const std::string& path)>;
  /// The chosen files that are not here, or are others here.
  FileMarks wanted(const FileMarks& there, const IsChosen& is_chosen) const;
  /// Before they come: removes what has the name of a folder or a file of a trial and is none, and the marks
  /// of checkpoints that are complete only when all their files have come.
  void make_room(const FileMarks& wanted) const;
  /// After that, whether or not all have come: removes everything that was neither here before nor wanted,
  /// and marks the folder again.
  void remove_strays(const FileMarks& wanted);
  /// Throws io if one of them did not come.
  void check_arrived(const FileMarks& wanted) const;

  struct Removed {
    int64_t files = 0;
    std::vector<std::string> kept{};  ///< trials that have no file any more where the sweep is
  };
  /// Removes files of trials that are gone there or are others there, and checkpoints of which files are
  /// missing here. A trial that has a result, and whose files have all gone there, is kept: this is its only
  /// copy.
  Removed remove_what_is_gone(const FileMarks& there, const IsChosen& is_chosen);

 private:
  std::filesystem::path folder_;
  std::string typed_;
  sweep::FetchedSweep from_;
  jobs::FileLock lock_;
  FolderEntries entries_;  // listed before files come, and when they have come
};

/// Throws invalid_option if one of the two folders is in the other one.
void check_is_apart(const std::filesystem::path& copy, const std::filesystem::path& sweep);

}  // namespace lockstep::cli
