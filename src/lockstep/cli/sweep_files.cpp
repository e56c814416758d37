#include "lockstep/cli/sweep_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/trial_folder.h"
#include "lockstep/sweep/fetched_sweep.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNanoseconds = 1'000'000'000;

// The first line of what sweep-files prints.
struct SweepHeading {
  std::string folder{};
  double begun = 0;
  bool is_going_on = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "");
    field("begun", self.begun, "");
    field("is_going_on", self.is_going_on, "");
  };
};

std::string part_of(const fs::path& path, int64_t number) {
  const auto parts = std::distance(path.begin(), path.end());
  return number < parts ? std::next(path.begin(), number)->string() : "";
}

// Requests to a run would be taken by a run that begins in the copy.
bool is_request(const fs::path& path) { return is_in_trial(path) && part_of(path, 2) == "requests"; }

// Until an error; then its errno, and the folder that was looked at.
struct EntriesUntilError {
  FolderEntries entries{};
  std::error_code code{};
  fs::path at{};
};
EntriesUntilError entries_until_error(const fs::path& folder) {
  EntriesUntilError found{.at = folder};
  for (fs::recursive_directory_iterator entry(folder, found.code), end; !found.code && entry != end;
       entry.increment(found.code)) {
    found.at = entry->path();
    struct stat status {};
    if (::lstat(found.at.c_str(), &status) != 0) {
      if (errno == ENOENT) continue;
      found.code = {errno, std::generic_category()};
      return found;
    }
    found.entries[found.at.lexically_relative(folder).string()] = {
        status.st_mode & S_IFMT,
        {status.st_size, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec}};
  }
  return found;
}

// A name that leads out of the folder, or to it, is none of a file of the sweep.
void check_path(const std::string& text) {
  const fs::path path = text;
  const bool is_inside = !text.empty() && path.is_relative() && path.lexically_normal() == path &&
                         *path.begin() != ".." && *path.begin() != "." && path.has_filename();
  if (!is_inside || is_of_programs(path))
    throw Error(ErrorCode::corrupt_data, "the sweep cannot have a file " + quote(text),
                "it is not fetched: its name leads elsewhere");
}

Error damaged_listing() {
  return {ErrorCode::corrupt_data, "the list of the sweep's files is damaged", kHintOfListing};
}

// "SIZE TIME PATH"
std::pair<std::string, FileMark> listed_file(const std::string& line) {
  const size_t first = line.find(' '), second = line.find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos) throw damaged_listing();
  const auto bytes = parse_number<int64_t>(line.substr(0, first)),
             changed = parse_number<int64_t>(line.substr(first + 1, second - first - 1));
  if (!bytes || *bytes < 0 || !changed) throw damaged_listing();
  std::string path = line.substr(second + 1);
  check_path(path);
  return {std::move(path), {*bytes, *changed}};
}

}  // namespace

bool is_of_programs(const fs::path& path) {
  static constexpr std::array kNames{"lock",      "log.lock",           "jobs.lock",
                                     "jobs.json", "requests",           "runners",
                                     "claims",    record::kFetchedMark, sweep::kFetchedLock};
  return std::ranges::find(kNames, part_of(path, 0)) != kNames.end();
}

bool is_in_trial(const fs::path& path) { return part_of(path, 0) == "trials" && !part_of(path, 2).empty(); }

std::string checkpoint_of(const std::string& path) {
  if (!is_in_trial(path) || part_of(path, 2) != "checkpoints" || part_of(path, 4).empty()) return "";
  return fs::path(path).parent_path().string();
}

FolderEntries entries_below(const fs::path& folder) {
  constexpr int kMostLooks = 20;
  EntriesUntilError found;
  for (int look = 0; look < kMostLooks; ++look) {
    found = entries_until_error(folder);
    if (!found.code) return std::move(found.entries);
    if (found.code != std::errc::no_such_file_or_directory) break;
  }
  throw errno_error(found.code.value(), "list", found.at.string());
}

FileMarks files_of(const FolderEntries& entries) {
  FileMarks files;
  for (const auto& [path, entry] : entries) {
    if (entry.type == S_IFREG && !is_of_programs(path) && !is_request(path)) files[path] = entry.mark;
  }
  return files;
}

SweepListing listing_here(const sweep::SweepPaths& paths) {
  (void)sweep::read_spec(paths);  // throws where there is no sweep
  // Before the files are listed: what ends meanwhile may have changed them.
  const bool is_going_on = sweep::is_worked_on(paths);
  return {.folder = fs::canonical(paths.folder).string(),
          .begun = sweep::begun_at(paths),
          .is_going_on = is_going_on,
          .files = files_of(entries_below(paths.folder))};
}

// A line of JSON, then for each file "SIZE TIME PATH" and a zero byte: names may have all other bytes.
std::string text_of_listing(const SweepListing& listing) {
  std::string text = to_json(SweepHeading{listing.folder, listing.begun, listing.is_going_on}).dump() + "\n";
  for (const auto& [path, mark] : listing.files)
    text += std::to_string(mark.bytes) + " " + std::to_string(mark.changed) + " " + path + '\0';
  return text;
}

SweepListing listing_of(const std::string& text) {
  const size_t end = text.find('\n');
  if (end == std::string::npos) throw damaged_listing();
  SweepHeading heading;
  try {
    read_json(parse_json(text.substr(0, end)), heading, "the list of the sweep's files");
  } catch (const Json::exception&) {
    throw damaged_listing();
  }
  SweepListing listing{.folder = heading.folder, .begun = heading.begun, .is_going_on = heading.is_going_on};
  int64_t room = std::numeric_limits<int64_t>::max();
  for (size_t at = end + 1; at < text.size();) {
    const size_t stop = text.find('\0', at);
    if (stop == std::string::npos) throw damaged_listing();
    auto [path, mark] = listed_file(text.substr(at, stop - at));
    if (mark.bytes > room) throw damaged_listing();
    room -= mark.bytes;
    if (!is_request(path)) listing.files[std::move(path)] = mark;
    at = stop + 1;
  }
  return listing;
}

int run_sweep_files(const Call& call, Console& console) {
  console.print(text_of_listing(listing_here({call.words.front()})));
  return 0;
}

}  // namespace lockstep::cli
