// Removes a run's files, and nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::record {

struct RemovedRun {
  std::vector<std::string>
      kept;  ///< names in the folder that are not a run's; the folder is removed if there are none
};

/// Throws unless the folder is that of a run which is neither running nor stopping: not_found, or
/// invalid_option. A link to a run folder is refused too, because its folder may have another name that is in
/// use.
void check_removable(const std::filesystem::path& run_folder);

/// Removes the files that a run has, as the one who writes to the run. Links are removed, not followed.
/// Throws what check_removable throws, and io for what cannot be removed.
RemovedRun remove_run(const std::filesystem::path& run_folder);

/// Removes what a kill has left of files that were being written. The caller holds the run's lock. Leaves the
/// status, which a thread of the run writes.
void remove_unfinished_files(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
