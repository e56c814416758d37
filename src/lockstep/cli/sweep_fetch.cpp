#include "lockstep/cli/sweep_fetch.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/sweep_copy.h"
#include "lockstep/cli/sweep_files.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerLimit{600};

struct SweepFetchChoice {
  bool weights = true;
  bool checkpoints = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Files");
    field("weights", self.weights, "weights of the trials that have kept them");
    field("checkpoints", self.checkpoints, "also the checkpoints of the trials");
  };
};

// A sweep of this machine, or of a cluster behind its login node.
class SweepSource {
 public:
  SweepSource(const std::optional<RelayedJob>& there, const std::string& typed)
      : there_(there), typed_(typed), folder_(there ? there->job : typed) {
    if (folder_.empty())
      throw Error(ErrorCode::invalid_option, quote(typed) + " names no sweep",
                  "lockstep sweep fetch " + typed + "FOLDER");
  }

  const std::string& typed() const { return typed_; }
  // FOLDER if none is named: the last part of "far:results/search/".
  fs::path usual_target() const {
    const fs::path folder = fs::path(folder_).lexically_normal();
    return folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  }
  // As commands take it here, also from another folder.
  std::string name(const SweepListing& listing) const {
    return (there_ ? there_->profile.name + ":" : "") + listing.folder;
  }

  // Nothing if it failed there, which it has said.
  std::optional<SweepListing> list(Console& console) const {
    if (!there_) return listing_here({folder_});
    const cluster::CommandEnd end =
        ask_there(there_->profile, {kSweepFilesVerb, "--", folder_}, {.limit = kAnswerLimit});
    console.note(end.errors);
    if (end.status == 1) return std::nullopt;
    if (end.status != 0)
      throw Error(ErrorCode::cluster, "the files of " + quote(typed_) + " cannot be listed", kHintOfListing);
    return listing_of(end.output);
  }

  // Brings the files whose names can be read from the descriptor; whether all came.
  bool bring(int names, const fs::path& target) const {
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
    return taken.is_unpacked;
  }

 private:
  const std::optional<RelayedJob>& there_;
  const std::string typed_;
  const std::string folder_;
};

bool is_chosen(const fs::path& path, const SweepFetchChoice& choice) {
  const std::vector<fs::path> parts(path.begin(), path.end());
  if (parts.size() < 3 || parts.front() != "trials") return true;
  if (parts[2] == "checkpoints") return choice.checkpoints;
  return choice.weights || path.extension() != ".safetensors";
}

// A file in memory with the names, which reads from its start. A checkpoint is complete when it has its last
// file, DONE.
Descriptor names_to_send(const FileMarks& files) {
  std::string text, last;
  for (const auto& [path, mark] : files) (path.ends_with("/DONE") ? last : text) += "./" + path + '\0';
  text += last;
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

void fetch_files(const SweepSource& source, const FileMarks& wanted, SweepCopy& copy) {
  copy.make_room(wanted);
  const Descriptor names = names_to_send(wanted);
  bool has_come = false;
  try {
    has_come = source.bring(names.get(), copy.folder());
  } catch (const Error&) {
    copy.remove_strays(wanted);
    throw;
  }
  copy.remove_strays(wanted);
  if (!has_come)
    throw Error(ErrorCode::io, "the files of " + quote(source.typed()) + " did not all come",
                "repeat the command; it goes on where it was");
}

void say_what_is_removed(const SweepCopy::Removed& removed, const fs::path& target, Console& console) {
  if (removed.files > 0) console.note(counted(removed.files, "file") + " removed\n");
  for (const std::string& trial : removed.kept)
    console.note(printable("kept " + (target / trial).string()) +
                 ": the sweep has lost all files of this trial\n");
}

}  // namespace

std::vector<FieldInfo> sweep_fetch_fields() { return fields_of<SweepFetchChoice>(); }

int fetch_sweep(const std::optional<RelayedJob>& there, const Call& call, Console& console) {
  const auto choice = settings_of<SweepFetchChoice>(call);
  const SweepSource source(there, call.words.front());
  const fs::path target = call.words.size() > 1 ? fs::path(call.words[1]) : source.usual_target();
  const auto listed = source.list(console);
  if (!listed) return 1;
  if (!there) check_is_apart(target, listed->folder);
  SweepCopy copy(target, {source.name(*listed), listed->begun}, source.typed());
  const auto is_asked = [&](const std::string& path) { return is_chosen(path, choice); };
  const FileMarks wanted = copy.wanted(listed->files, is_asked);
  if (!wanted.empty()) {
    int64_t bytes = 0;
    for (const auto& [path, mark] : wanted) bytes += mark.bytes;
    console.note("fetching " + counted(std::ssize(wanted), "file") + ", " + as_bytes(bytes) + "\n");
    fetch_files(source, wanted, copy);
  }
  say_what_is_removed(copy.remove_what_is_gone(listed->files, is_asked), target, console);
  copy.check_arrived(listed->is_going_on ? without_trials(wanted) : wanted);
  console.print(
      printable((wanted.empty() ? "nothing new for " : counted(std::ssize(wanted), "file") + " in ") +
                target.string()) +
      "\n");
  if (listed->is_going_on) console.note("the sweep goes on; the same command fetches what is new then\n");
  return 0;
}

int run_sweep_fetch(const Call& call, Console& console) { return fetch_sweep(std::nullopt, call, console); }

}  // namespace lockstep::cli
