#include "lockstep/cli/sweep_fetch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/sweep/fetched_sweep.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFilesVerb = "sweep-files";
constexpr std::chrono::seconds kAnswerLimit{600};
constexpr int64_t kNanoseconds = 1'000'000'000;

struct SweepFetchChoice {
  bool weights = true;
  bool checkpoints = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Files");
    field("weights", self.weights, "weights of the trials that have kept them");
    field("checkpoints", self.checkpoints, "also the checkpoints of the trials");
  };
};

// The first line of what sweep-files prints.
struct SweepHeading {
  std::string folder{};  // from the root
  double begun = 0;
  bool is_going_on = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "");
    field("begun", self.begun, "");
    field("is_going_on", self.is_going_on, "");
  };
};

// What tells a file from an older or an incomplete one of its name.
struct FileMark {
  int64_t bytes = 0;
  int64_t changed = 0;  // nanoseconds since 1970
  bool operator==(const FileMark&) const = default;
};
using FileMarks = std::map<std::string, FileMark>;  // by the path below the sweep's folder

// What belongs to the programs that work on a sweep where it is.
bool is_of_programs(const fs::path& path) {
  static constexpr std::array kNames{"lock",     "log.lock", "jobs.lock", "jobs.json",
                                     "requests", "runners",  "claims",    sweep::kFetchedMark};
  return std::ranges::find(kNames, path.begin()->string()) != kNames.end();
}

// All regular files, until an error.
FileMarks files_until_error(const fs::path& folder, std::error_code& code) {
  FileMarks files;
  for (auto entry =
           fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, code);
       !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const fs::path path = entry->path().lexically_relative(folder);
    if (!is_of_programs(path))
      files[path.string()] = {status.st_size, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
  }
  return files;
}

// All regular files. A sweep that goes on removes folders of checkpoints: then it looks again.
FileMarks files_below(const fs::path& folder) {
  constexpr int kMostLooks = 20;
  std::error_code code;
  for (int look = 0; look < kMostLooks; ++look) {
    FileMarks files = files_until_error(folder, code);
    if (!code) return files;
    if (code != std::errc::no_such_file_or_directory) break;
  }
  throw errno_error(code.value(), "list", folder.string());
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

struct SweepListing {
  SweepHeading heading{};
  FileMarks files{};
};

// A line of JSON, then for each file "SIZE TIME PATH" and a zero byte: names may have all other bytes.
std::string text_of_listing(const SweepListing& listing) {
  std::string text = to_json(listing.heading).dump() + "\n";
  for (const auto& [path, mark] : listing.files)
    text += std::to_string(mark.bytes) + " " + std::to_string(mark.changed) + " " + path + '\0';
  return text;
}

SweepListing listing_of(const std::string& text) {
  const auto damaged = [] {
    return Error(ErrorCode::corrupt_data, "the list of the sweep's files is damaged",
                 "the program there must be of the version that is here");
  };
  SweepListing listing;
  const size_t end = text.find('\n');
  if (end == std::string::npos) throw damaged();
  try {
    read_json(parse_json(text.substr(0, end)), listing.heading, "the list of the sweep's files");
  } catch (const Json::exception&) {
    throw damaged();
  }
  for (size_t at = end + 1; at < text.size();) {
    const size_t stop = text.find('\0', at);
    if (stop == std::string::npos) throw damaged();
    const std::string line = text.substr(at, stop - at);
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (first == std::string::npos || second == std::string::npos) throw damaged();
    const auto bytes = parse_number<int64_t>(line.substr(0, first)),
               changed = parse_number<int64_t>(line.substr(first + 1, second - first - 1));
    if (!bytes || *bytes < 0 || !changed) throw damaged();
    const std::string path = line.substr(second + 1);
    check_path(path);
    listing.files[path] = {*bytes, *changed};
    at = stop + 1;
  }
  return listing;
}

SweepListing listing_here(const sweep::SweepPaths& paths) {
  (void)sweep::read_spec(paths);  // throws where there is no sweep
  // Before the files are listed: what ends meanwhile may have changed them.
  const bool is_going_on = sweep::is_worked_on(paths);
  return {.heading = {.folder = fs::canonical(paths.folder).string(),
                      .begun = sweep::begun_at(paths),
                      .is_going_on = is_going_on},
          .files = files_below(paths.folder)};
}

// A sweep of this machine, or of a cluster behind its login node.
class SweepSource {
 public:
  SweepSource(const std::optional<RelayedJob>& there, const std::string& typed)
      : there_(there), typed_(typed), folder_(there ? there->job : typed) {}

  const std::string& typed() const { return typed_; }
  // FOLDER if none is named: the last part of "far:results/search/".
  fs::path usual_target() const {
    const fs::path folder = fs::path(folder_).lexically_normal();
    return folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  }
  // As commands take it here, also from another folder.
  std::string name(const SweepHeading& heading) const {
    return (there_ ? there_->profile.name + ":" : "") + heading.folder;
  }

  // Nothing if it failed there, which it has said.
  std::optional<SweepListing> list(Console& console) const {
    if (!there_) return listing_here({folder_});
    const cluster::CommandEnd end =
        ask_there(there_->profile, {kFilesVerb, "--", folder_}, {.limit = kAnswerLimit});
    console.note(end.errors);
    return end.status == 0 ? std::optional(listing_of(end.output)) : std::nullopt;
  }

  // Brings the files whose names can be read from the descriptor.
  void bring(int names, const fs::path& target) const {
    const std::vector<std::string> words{"tar",
                                         "-C",
                                         folder_,
                                         "--sparse",
                                         "--format=posix",
                                         "--no-recursion",
                                         "--ignore-failed-read",
                                         "--warning=no-failed-read",
                                         "--warning=no-file-changed",
                                         "--null",
                                         "--verbatim-files-from",
                                         "-T",
                                         "-",
                                         "-cf",
                                         "-"};
    const TakenArchive taken = there_ ? take_archive_there(there_->profile, words, names, target)
                                      : take_archive(words, names, target);
    if (!taken.is_unpacked)
      throw Error(ErrorCode::io, "the files of " + quote(typed_) + " did not all come",
                  "repeat the command; it goes on where it was");
  }

 private:
  const std::optional<RelayedJob>& there_;
  const std::string typed_;
  const std::string folder_;
};

void check_target(const fs::path& target, const sweep::FetchedSweep& from, const std::string& typed) {
  const std::string other = "name another folder: lockstep sweep fetch " + shell_word(typed) + " FOLDER";
  std::error_code none;
  if (const auto known = sweep::fetched_from({target})) {
    if (known->sweep != from.sweep)
      throw Error(ErrorCode::invalid_option,
                  quote(target.string()) + " is a copy of another sweep, " + quote(known->sweep), other);
    if (known->begun > 0 && known->begun != from.begun)
      throw Error(ErrorCode::invalid_option,
                  quote(target.string()) + " is a copy of an earlier sweep in " + quote(known->sweep), other);
  } else if (fs::exists(sweep::SweepPaths{target}.spec(), none)) {
    throw Error(ErrorCode::invalid_option, quote(target.string()) + " is another sweep, and no copy", other);
  } else if (fs::exists(target, none) && !fs::is_empty(target, none)) {
    throw Error(ErrorCode::invalid_option, quote(target.string()) + " has other files", other);
  }
  if (!fs::is_directory(target, none)) return;
  // An archive must not be led out of the folder.
  for (const auto& entry : fs::recursive_directory_iterator(target)) {
    if (entry.is_symlink(none))
      throw Error(ErrorCode::invalid_option, quote(entry.path().string()) + " is a symbolic link",
                  "remove it, or " + other);
  }
}

bool is_chosen(const fs::path& path, const SweepFetchChoice& choice) {
  const std::vector<fs::path> parts(path.begin(), path.end());
  if (parts.size() < 3 || parts.front() != "trials") return true;
  if (parts[2] == "checkpoints") return choice.checkpoints;
  return choice.weights || path.extension() != ".safetensors";
}

// A file in memory with the names, which reads from its start.
Descriptor names_to_send(const FileMarks& files) {
  std::string text;
  for (const auto& [path, mark] : files) text += "./" + path + '\0';
  Descriptor file(::memfd_create("names", MFD_CLOEXEC));
  if (!file) throw errno_error(errno, "make", "a list of names");
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(file.get(), text.data() + at, text.size() - at);
    if (written < 0) throw errno_error(errno, "write", "a list of names");
    at += static_cast<size_t>(written);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// A sweep that goes on may remove weights and checkpoints while they are fetched.
FileMarks without_trials(FileMarks files) {
  std::erase_if(files, [](const auto& one) { return one.first.starts_with("trials/"); });
  return files;
}

// Files of an older time are those that were here before.
void check_arrived(const FileMarks& wanted, const fs::path& target, const std::string& typed) {
  constexpr int64_t kRounding = 2 * kNanoseconds;  // of some file systems
  const FileMarks here = files_below(target);
  std::vector<std::string> missing;
  for (const auto& [path, mark] : wanted) {
    const auto found = here.find(path);
    if (found == here.end() || found->second.changed + kRounding < mark.changed) missing.push_back(path);
  }
  if (!missing.empty())
    throw Error(
        ErrorCode::io,
        counted(std::ssize(missing), "file") + " of " + quote(typed) + " did not come, such as " +
            quote(missing.front()),
        "repeat the command; if it fails again, look whether the file can be read where the sweep is");
}

// A trial that has begun again there would have files of both of its lives.
void remove_what_is_gone(const FileMarks& there, const fs::path& target) {
  for (const auto& [path, mark] : files_below(target)) {
    std::error_code none;
    if (path.starts_with("trials/") && !there.contains(path)) fs::remove(target / path, none);
  }
}

FileMarks wanted_files(const FileMarks& there, const fs::path& target, const SweepFetchChoice& choice) {
  std::error_code none;
  const FileMarks here = fs::is_directory(target, none) ? files_below(target) : FileMarks{};
  FileMarks wanted;
  for (const auto& [path, mark] : there) {
    const auto found = here.find(path);
    if (is_chosen(path, choice) && (found == here.end() || found->second != mark)) wanted[path] = mark;
  }
  return wanted;
}

}  // namespace

std::vector<FieldInfo> sweep_fetch_fields() { return fields_of<SweepFetchChoice>(); }

int fetch_sweep(const std::optional<RelayedJob>& there, const Call& call, Console& console) {
  const auto choice = settings_of<SweepFetchChoice>(call);
  const SweepSource source(there, call.words.front());
  const fs::path target = call.words.size() > 1 ? fs::path(call.words[1]) : source.usual_target();
  const auto listed = source.list(console);
  if (!listed) return 1;
  const auto& [heading, files] = *listed;
  const sweep::FetchedSweep from{source.name(heading), heading.begun};
  check_target(target, from, source.typed());
  const FileMarks wanted = wanted_files(files, target, choice);
  make_folders(target);
  sweep::mark_as_fetched({target}, from);
  if (!wanted.empty()) {
    int64_t bytes = 0;
    for (const auto& [path, mark] : wanted) bytes += mark.bytes;
    console.note("fetching " + counted(std::ssize(wanted), "file") + ", " + as_bytes(bytes) + "\n");
    const Descriptor names = names_to_send(wanted);
    source.bring(names.get(), target);
    check_arrived(heading.is_going_on ? without_trials(wanted) : wanted, target, source.typed());
  }
  remove_what_is_gone(files, target);
  console.print(
      printable((wanted.empty() ? "nothing new for " : counted(std::ssize(wanted), "file") + " in ") +
                target.string()) +
      "\n");
  if (heading.is_going_on) console.note("the sweep goes on; the same command fetches what is new then\n");
  return 0;
}

int run_sweep_fetch(const Call& call, Console& console) { return fetch_sweep(std::nullopt, call, console); }

int run_sweep_files(const Call& call, Console& console) {
  console.print(text_of_listing(listing_here({call.words.front()})));
  return 0;
}

}  // namespace lockstep::cli
