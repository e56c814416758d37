#include "lockstep/cli/sweep_copy.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/record/trial_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrials = "trials/";
constexpr const char* kComplete = "DONE";  // in a checkpoint that has all its files

std::string hint_of_other(const std::string& typed) {
  return "name another folder: lockstep sweep fetch " + shell_word(typed) + " FOLDER";
}

// A fetch that was interrupted may have left parts of the mark.
bool has_files(const fs::path& folder) {
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name != sweep::kFetchedLock && !name.starts_with(record::kFetchedMark)) return true;
  }
  if (code) throw errno_error(code.value(), "list", folder.string());
  return false;
}

// Whether it is a copy already.
bool check_is_free(const fs::path& folder, const sweep::FetchedSweep& from, const std::string& typed) {
  const auto refuse = [&](const std::string& what) {
    return Error(ErrorCode::invalid_option, quote(folder.string()) + what, hint_of_other(typed));
  };
  std::error_code none;
  if (const auto known = sweep::fetched_from({folder})) {
    if (known->sweep != from.sweep) throw refuse(" is a copy of another sweep, " + quote(known->sweep));
    if (known->begun != 0 && known->begun != from.begun)
      throw refuse(" is a copy of an earlier sweep in " + quote(from.sweep));
    return known->begun == from.begun;
  }
  if (fs::exists(sweep::SweepPaths{folder}.spec(), none)) throw refuse(" is another sweep, and no copy");
  if (fs::exists(folder, none) && !fs::is_directory(folder, none)) throw refuse(" is no folder");
  if (fs::is_directory(folder, none) && has_files(folder)) throw refuse(" has other files");
  return false;
}

void remove_entry(const fs::path& path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (code) throw errno_error(code.value(), "remove", path.string());
}

// From the innermost on.
template <class IsRemoved>
void remove_empty_folders(const fs::path& folder, const FolderEntries& entries, const IsRemoved& is_removed) {
  for (auto one = entries.rbegin(); one != entries.rend(); ++one) {
    std::error_code none;
    if (one->second.type == S_IFDIR && is_removed(one->first) && fs::is_empty(folder / one->first, none))
      fs::remove(folder / one->first, none);
  }
}

Error link_error(const fs::path& link, const std::string& typed) {
  return {ErrorCode::invalid_option, quote(link.string()) + " is a symbolic link",
          "remove it, or " + hint_of_other(typed)};
}

jobs::FileLock lock_free_folder(const fs::path& folder, const sweep::FetchedSweep& from,
                                const std::string& typed) {
  (void)check_is_free(folder, from, typed);
  std::error_code none;
  if (fs::is_symlink(folder / sweep::kFetchedLock, none))
    throw link_error(folder / sweep::kFetchedLock, typed);
  make_folders(folder);
  auto lock = jobs::FileLock::try_take_where_possible(folder / sweep::kFetchedLock);
  if (!lock)
    throw Error(ErrorCode::invalid_option, "another program fetches into " + quote(folder.string()),
                "repeat the command when it has ended");
  return *std::move(lock);
}

// "trials/0007": of its folder, and of what is beside it.
std::string trial_of_file(const std::string& path) {
  const size_t end = path.find_first_of("./", kTrials.size());
  return path.substr(0, end);
}

bool is_same(const FileMark& one, const FileMark& other) {
  return one.bytes == other.bytes && std::abs(one.changed - other.changed) <= kRoundingOfTimes;
}

// Folders of checkpoints that are complete there, and of which a file is missing here.
std::set<std::string> half_checkpoints(const FileMarks& there, const FileMarks& here) {
  std::set<std::string> half;
  for (const auto& [path, mark] : there) {
    const std::string checkpoint = checkpoint_of(path);
    if (checkpoint.empty() || !there.contains(checkpoint + "/" + kComplete)) continue;
    const auto found = here.find(path);
    if (found == here.end() || found->second.bytes != mark.bytes) half.insert(checkpoint);
  }
  return half;
}

// Trials that have a result, as the copy knows them: nobody has asked for them to begin again.
std::set<std::string> trials_with_result(const fs::path& folder) {
  std::set<std::string> trials;
  const sweep::SweepPaths paths{folder};
  for (const sweep::Row& row : sweep::read_table(paths).rows) {
    if (sweep::is_over(row.state) || row.value)
      trials.insert(paths.trial(row.trial).lexically_relative(folder).string());
  }
  return trials;
}

}  // namespace

SweepCopy::SweepCopy(fs::path folder, const sweep::FetchedSweep& from, const std::string& typed)
    : folder_(std::move(folder)),
      typed_(typed),
      from_(from),
      lock_(lock_free_folder(folder_, from, typed)),
      entries_(entries_below(folder_)) {
  // An archive must not be led out of the folder.
  for (const auto& [path, entry] : entries_) {
    if (entry.type == S_IFLNK) throw link_error(folder_ / path, typed);
  }
  // Another program may have fetched before this one had the lock.
  if (!check_is_free(folder_, from, typed)) sweep::mark_as_fetched({folder_}, from);
  entries_[record::kFetchedMark].type = S_IFREG;
}

FileMarks SweepCopy::wanted(const FileMarks& there, const IsChosen& is_chosen) const {
  const FileMarks here = files_of(entries_);
  FileMarks wanted;
  for (const auto& [path, mark] : there) {
    const auto found = here.find(path);
    if (!is_chosen(path) || (found != here.end() && found->second == mark)) continue;
    wanted[path] = mark;
    const std::string checkpoint = checkpoint_of(path);
    const auto complete = checkpoint.empty() ? there.end() : there.find(checkpoint + "/" + kComplete);
    if (complete != there.end()) wanted.insert(*complete);
  }
  return wanted;
}

void SweepCopy::make_room(const FileMarks& wanted) const {
  const auto status_of = [&](const std::string& path) {
    std::error_code none;
    return fs::symlink_status(folder_ / path, none);
  };
  std::set<std::string> folders;
  for (const auto& [path, mark] : wanted) {
    for (size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
      if (path.starts_with(kTrials)) folders.insert(path.substr(0, end));
    }
  }
  for (const std::string& one : folders) {
    const fs::file_status status = status_of(one);
    if (fs::exists(status) && !fs::is_directory(status)) remove_entry(folder_ / one);
  }
  for (const auto& [path, mark] : wanted) {
    const bool is_mark = !checkpoint_of(path).empty() && fs::path(path).filename() == kComplete;
    if (is_mark || (path.starts_with(kTrials) && fs::is_directory(status_of(path))))
      remove_entry(folder_ / path);
  }
}

void SweepCopy::remove_strays(const FileMarks& wanted) {
  const FolderEntries before = std::exchange(entries_, entries_below(folder_));
  const auto was_here = [&](const std::string& path, mode_t type) {
    const auto found = before.find(path);
    return found != before.end() && found->second.type == type;
  };
  std::erase_if(entries_, [&](const auto& one) {
    const auto& [path, entry] = one;
    const bool is_asked = entry.type == S_IFREG && wanted.contains(path);
    if (entry.type == S_IFDIR || is_asked || was_here(path, entry.type)) return false;
    remove_entry(folder_ / path);
    return true;
  });
  remove_empty_folders(folder_, entries_, [&](const std::string& path) { return !was_here(path, S_IFDIR); });
  sweep::mark_as_fetched({folder_}, from_);
}

// Files of an older time are those that were here before.
void SweepCopy::check_arrived(const FileMarks& wanted) const {
  const FileMarks here = files_of(entries_);
  std::vector<std::string> missing;
  for (const auto& [path, mark] : wanted) {
    const auto found = here.find(path);
    if (found == here.end() || found->second.changed + kRoundingOfTimes < mark.changed)
      missing.push_back(path);
  }
  if (!missing.empty())
    throw Error(
        ErrorCode::io,
        counted(std::ssize(missing), "file") + " of " + quote(typed_) + " did not come, such as " +
            quote(missing.front()),
        "repeat the command; if it fails again, look whether the file can be read where the sweep is");
}

SweepCopy::Removed SweepCopy::remove_what_is_gone(const FileMarks& there, const IsChosen& is_chosen) {
  const FileMarks here = files_of(entries_);
  std::set<std::string> trials_there, gone;
  for (const auto& [path, mark] : there) trials_there.insert(trial_of_file(path));
  const std::set<std::string> half = half_checkpoints(there, here);
  std::vector<std::string> removed;
  for (const auto& [path, mark] : here) {
    const auto found = there.find(path);
    const bool is_other = found == there.end() || (!is_chosen(path) && !is_same(found->second, mark)) ||
                          half.contains(checkpoint_of(path));
    if (!path.starts_with(kTrials) || !is_other) continue;
    removed.push_back(path);
    if (!trials_there.contains(trial_of_file(path))) gone.insert(trial_of_file(path));
  }
  Removed result;
  if (!gone.empty())
    std::ranges::set_intersection(gone, trials_with_result(folder_), std::back_inserter(result.kept));
  std::erase_if(removed, [&](const std::string& path) {
    return std::ranges::binary_search(result.kept, trial_of_file(path));
  });
  // A checkpoint without its mark does not exist for readers.
  std::ranges::stable_partition(
      removed, [](const std::string& path) { return fs::path(path).filename() == kComplete; });
  for (const std::string& path : removed) {
    remove_entry(folder_ / path);
    entries_.erase(path);
  }
  result.files = std::ssize(removed);
  if (!removed.empty())
    remove_empty_folders(folder_, entries_,
                         [](const std::string& path) { return path.starts_with(kTrials); });
  return result;
}

void check_is_apart(const fs::path& copy, const fs::path& sweep) {
  const fs::path one = fs::weakly_canonical(fs::absolute(copy)), other = fs::weakly_canonical(sweep);
  const auto is_below = [](const fs::path& inner, const fs::path& outer) {
    const fs::path relative = inner.lexically_relative(outer);
    return !relative.empty() && relative != "." && *relative.begin() != "..";
  };
  if (is_below(one, other) || is_below(other, one))
    throw Error(ErrorCode::invalid_option,
                quote(copy.string()) + (is_below(one, other) ? " is in the sweep " : " has the sweep ") +
                    quote(sweep.string()),
                "name a folder elsewhere");
}

}  // namespace lockstep::cli
