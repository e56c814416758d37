#include "lockstep/record/registry.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <dirent.h>
#include <set>
#include <sys/stat.h>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/record/disk_use.h"
#include "lockstep/record/internal/summary_cache.h"

namespace lockstep::record {
namespace {

constexpr int kMostDepthOfRuns = 32;
constexpr size_t kReaders = 8;  // they wait for disks more than they compute

struct FoundRun {
  std::string name;  // below the root; "." for the root itself
  std::filesystem::path folder;
  RunSummary summary;
  bool is_read = false;
};

// All runs below one root.
class Scan {
 public:
  Scan(std::set<std::pair<dev_t, ino_t>>& seen, SummaryCache& cache, std::vector<std::string>& warnings)
      : seen_(seen), cache_(cache), warnings_(warnings) {}

  void visit_root(const std::filesystem::path& root) {
    std::error_code none;
    for (std::filesystem::path above = std::filesystem::canonical(root, none); above.has_relative_path();) {
      above = above.parent_path();
      struct stat status {};
      if (::stat(above.c_str(), &status) == 0) above_.insert({status.st_dev, status.st_ino});
    }
    visit(root, "", 0);
  }

  std::vector<FoundRun>& runs() { return runs_; }

 private:
  // name: relative to the root; empty for the root.
  void visit(const std::filesystem::path& folder, const std::string& name, int depth) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
    if (above_.contains({status.st_dev, status.st_ino})) return;  // a link to it: all of a machine, perhaps
    if (!seen_.insert({status.st_dev, status.st_ino}).second) return;
    if (take_run(folder, name.empty() ? "." : name) || depth == kMostDepthOfRuns) return;
    for (const std::string& below : folders_in(folder))
      visit(folder / below, name.empty() ? below : name + "/" + below, depth + 1);
  }

  bool take_run(const std::filesystem::path& folder, const std::string& name) {
    const RunSignature signature = signature_of(folder);
    if (!signature.may_be_run) return false;
    if (auto known = cache_.find(name, signature)) {
      runs_.push_back({name, folder, *std::move(known), true});
      return true;
    }
    if (!is_run_folder(folder)) return false;
    runs_.push_back({name, folder, {}, false});
    return true;
  }

  std::vector<std::string> folders_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    DIR* const opened = ::opendir(folder.c_str());
    if (opened == nullptr) {
      if (errno != ENOENT) warnings_.push_back(errno_error(errno, "list", folder.string()).message());
      return names;
    }
    while (const dirent* entry = ::readdir(opened)) {
      const bool may_be_folder =
          entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
      if (may_be_folder && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(opened);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::set<std::pair<dev_t, ino_t>>& seen_;
  std::set<std::pair<dev_t, ino_t>> above_;  // the folders that hold the root
  SummaryCache& cache_;
  std::vector<std::string>& warnings_;
  std::vector<FoundRun> runs_;
};

// What a run says now may be kept if its files did not change meanwhile.
struct Reading {
  RunSummary summary;
  RunSignature signature;
  bool may_be_kept = false;
};

Reading read_run(const std::filesystem::path& folder) {
  Reading reading;
  const RunSignature before = signature_of(folder);
  try {
    reading.summary = summary_of(folder);
    reading.summary.bytes = disk_use(folder);
  } catch (const std::exception& error) {  // out of memory, for example
    reading.summary.state.reset();
    reading.summary.reason = error.what();
  }
  // To find out how long a run was silent, a file is made in its folder: the folder's time is taken after
  // that.
  reading.signature = signature_of(folder);
  const auto& state = reading.summary.state;
  // A lost run that writes again has other files.
  reading.may_be_kept =
      state && (is_final(*state) || *state == RunState::lost) && before.files == reading.signature.files;
  return reading;
}

void read_runs(std::vector<FoundRun>& runs, SummaryCache& cache) {
  std::vector<FoundRun*> wanted;
  for (FoundRun& run : runs) {
    if (!run.is_read) wanted.push_back(&run);
  }
  std::vector<Reading> readings(wanted.size());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> readers;
    for (size_t i = 0; i < std::min(kReaders, wanted.size()); ++i) {
      readers.emplace_back([&] {
        for (size_t at = next++; at < wanted.size(); at = next++) readings[at] = read_run(wanted[at]->folder);
      });
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i]->summary = std::move(readings[i].summary);
    wanted[i]->summary.folder = wanted[i]->name;
    if (readings[i].may_be_kept) cache.keep(wanted[i]->name, readings[i].signature, wanted[i]->summary);
  }
}

std::filesystem::path cache_file(const std::filesystem::path& cache_folder,
                                 const std::filesystem::path& root) {
  if (cache_folder.empty()) return {};
  std::error_code code;
  const std::filesystem::path whole = std::filesystem::canonical(root, code);
  return code ? std::filesystem::path() : cache_folder / (as_hex(hash_of(whole.native())) + ".runs");
}

void check_root(const std::filesystem::path& root) {
  struct stat status {};
  if (::stat(root.c_str(), &status) != 0) throw errno_error(errno, "list", root.string());
  if (!S_ISDIR(status.st_mode))
    throw Error(ErrorCode::invalid_option, quote(root.native()) + " is not a folder",
                "name a folder of runs");
}

}  // namespace

std::filesystem::path RunRegistry::default_cache_folder() {
  const std::filesystem::path folder = lockstep_cache_folder();
  return folder.empty() ? folder : folder / "runs";
}

RunList RunRegistry::list(const std::vector<std::filesystem::path>& roots) const {
  for (const std::filesystem::path& root : roots) check_root(root);
  RunList list;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::filesystem::path& root : roots) {
    SummaryCache cache(cache_file(cache_folder_, root));
    Scan scan(seen, cache, list.warnings);
    scan.visit_root(root);
    read_runs(scan.runs(), cache);
    cache.save();
    for (FoundRun& run : scan.runs()) {
      // As the user would type it.
      run.summary.folder = run.name == "." ? root.string()
                           : root == "."   ? run.name
                                           : (root / run.name).string();
      list.runs.push_back(std::move(run.summary));
    }
  }
  return list;
}

}  // namespace lockstep::record
