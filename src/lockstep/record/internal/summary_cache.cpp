#include "lockstep/record/internal/summary_cache.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

// To be raised when a summary is read in another way.
constexpr uint64_t kCacheVersion = 2;
constexpr int64_t kMostCacheBytes = int64_t{1} << 28;  // about 400,000 runs
constexpr size_t kMostCacheFiles = 100;
constexpr size_t kHexDigits = 16;
constexpr std::string_view kCacheEnding = ".runs";

// A line is HASH NAME-HASH SIGNATURE JSON; its first hash tells whether it is whole and of this version.
std::string hash_of_line(std::string_view rest) {
  static const uint64_t seed = hash_of(join(field_names<RunSummary>(), " "), kCacheVersion);
  return as_hex(hash_of(rest, seed));
}

uint64_t key_of(const RunSignature& signature) { return hash_of(as_hex(signature.files), signature.folders); }

std::string line_of(const std::string& name, const RunSignature& signature, const RunSummary& summary) {
  const std::string json = lockstep::to_json(summary).dump(-1, ' ', true, Json::error_handler_t::replace);
  const std::string rest = as_hex(hash_of(name)) + " " + as_hex(key_of(signature)) + " " + json;
  return hash_of_line(rest) + " " + rest;
}

// What is seen of a file or folder without opening it.
void add_to(std::string& text, const std::filesystem::path& path, bool with_size) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    text += "-;";
    return;
  }
  text += std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + " " +
          std::to_string(status.st_ino);
  if (with_size) text += " " + std::to_string(status.st_size);
  text += ";";
}

bool is_there(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

RunSignature signature_of(const std::filesystem::path& run_folder) {
  const RunPaths paths{run_folder};
  const bool has_status = is_there(paths.status());
  const bool has_events = !has_status && is_there(paths.events());
  const bool has_begun = !has_status && !has_events && is_there(paths.options()) && is_there(paths.lock());
  if (!has_status && !has_events && !has_begun) return {};
  std::string files, folders;
  add_to(files, paths.status(), true);
  add_to(files, paths.result(), true);
  if (!has_status) {
    add_to(files, paths.options(), true);
    add_to(files, paths.lock(), true);
    try {
      for (const LogFile& log : log_files(run_folder)) add_to(files, log.path, true);
    } catch (const Error&) {
      files += "unreadable";
    }
  }
  add_to(folders, run_folder, false);
  add_to(folders, paths.checkpoints(), false);
  return {.may_be_run = true, .files = hash_of(files), .folders = hash_of(folders)};
}

SummaryCache::SummaryCache(std::filesystem::path file) : file_(std::move(file)) {
  try {
    if (!file_.empty()) text_ = read_file(file_, kMostCacheBytes);
  } catch (const Error&) {  // see the class
  }
  std::string_view rest = text_;
  for (size_t end = 0; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    constexpr size_t kName = kHexDigits + 1;
    if (line.size() < kName + kHexDigits) continue;
    uint64_t name = 0;
    const char* first = line.data() + kName;
    if (std::from_chars(first, first + kHexDigits, name, 16).ptr == first + kHexDigits) lines_[name] = line;
  }
}

std::optional<RunSummary> SummaryCache::find(const std::string& name, const RunSignature& signature) {
  const auto found = lines_.find(hash_of(name));
  if (found == lines_.end()) return std::nullopt;
  const std::string_view line = found->second;
  const std::string_view rest = line.substr(kHexDigits + 1);
  constexpr size_t kSignature = kHexDigits + 1, kJson = 2 * (kHexDigits + 1);
  if (rest.size() < kJson || rest.substr(kSignature, kHexDigits) != as_hex(key_of(signature)) ||
      line.substr(0, kHexDigits) != hash_of_line(rest))
    return std::nullopt;
  try {
    RunSummary summary;
    lockstep::read_json(parse_json(rest.substr(kJson)), summary, "");
    if (summary.folder != name) return std::nullopt;
    kept_[name] = line;
    return summary;
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

void SummaryCache::keep(const std::string& name, const RunSignature& signature, const RunSummary& summary) {
  kept_[name] = line_of(name, signature, summary);
  changed_ = true;
}

namespace {

// The files of the roots that were listed last stay.
void remove_old_caches(const std::filesystem::path& folder) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  std::error_code code;
  std::filesystem::directory_iterator entries(folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    std::error_code ignored;
    if (entries->path().extension() == kCacheEnding)
      files.emplace_back(entries->last_write_time(ignored), entries->path());
  }
  std::sort(files.begin(), files.end(), std::greater<>());
  for (size_t i = kMostCacheFiles; i < files.size(); ++i) std::filesystem::remove(files[i].second, code);
}

}  // namespace

void SummaryCache::save() {
  if (file_.empty() || (!changed_ && kept_.size() == lines_.size())) return;
  try {
    const std::filesystem::path folder = file_.parent_path();
    make_folders(folder);
    const Descriptor lock(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    // Whoever holds it writes the same, or the next call does.
    if (!lock || (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)) return;
    std::string text;
    for (const auto& [name, line] : kept_) text += line + "\n";
    write_file_atomic(file_, text);
    remove_old_caches(folder);
  } catch (const Error&) {  // see the class
  }
}

}  // namespace lockstep::record
