// The files of a sweep, as sweep-files lists them where the sweep is and sweep fetch compares them here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

inline constexpr const char* kSweepFilesVerb = "sweep-files";

/// What tells a file from an older or an incomplete one of its name.
struct FileMark {
  int64_t bytes = 0;
  int64_t changed = 0;  ///< nanoseconds since 1970
  bool operator==(const FileMark&) const = default;
};
/// File systems round times, at most by this, in nanoseconds.
inline constexpr int64_t kRoundingOfTimes = 2'000'000'000;

using FileMarks = std::map<std::string, FileMark>;  ///< by the path below the sweep's folder

/// A file, a folder, or another thing.
struct FolderEntry {
  mode_t type = 0;  ///< such as S_IFREG
  FileMark mark{};
};
using FolderEntries = std::map<std::string, FolderEntry>;  ///< by the path below the folder

struct SweepListing {
  std::string folder{};  ///< of the sweep, from the root
  double begun = 0;      ///< as sweep::begun_at()
  bool is_going_on = false;
  FileMarks files{};
};

/// Whether a path below the sweep's folder, or its first folder, belongs to the programs that work on the
/// sweep there, or to the mark of a copy.
bool is_of_programs(const std::filesystem::path& path);
/// A file of trials/0007/...
bool is_in_trial(const std::filesystem::path& path);
/// The folder of the checkpoint to which a file belongs, "trials/0007/checkpoints/step-00000071"; empty
/// without one.
std::string checkpoint_of(const std::string& path);

/// Everything below a folder, without following links. A sweep that goes on removes folders of checkpoints:
/// then it looks again. Throws what lets something not be seen: a file that is not listed is removed from a
/// copy.
FolderEntries entries_below(const std::filesystem::path& folder);
/// The regular files that are no program's.
FileMarks files_of(const FolderEntries& entries);

/// Throws not_found if there is no sweep.
SweepListing listing_here(const sweep::SweepPaths& paths);

/// What sweep-files prints, and back. Throws corrupt_data, also for a file whose name leads elsewhere.
std::string text_of_listing(const SweepListing& listing);
SweepListing listing_of(const std::string& text);

/// What to do where the other program gives no such text.
inline constexpr const char* kHintOfListing =
    "the program there must be of the version that is here, and the login shell there must print nothing "
    "of its own";

}  // namespace lockstep::cli
