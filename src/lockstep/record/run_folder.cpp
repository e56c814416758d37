#include "lockstep/record/run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cctype>
#include <fcntl.h>
#include <iterator>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/file.h"
#include "lockstep/base/missing_locks.h"
#include "lockstep/base/host.h"

namespace lockstep::record {
namespace {

// Files of a run that waits to be started, or left by a program that was killed before it wrote its options.
// That run has not begun, and all of these are written again.
bool is_left_over(const RunPaths& paths, const std::filesystem::path& file) {
  const auto beside = [](std::filesystem::path whole) { return whole += ".part"; };
  if (file.filename().native().starts_with(RunPaths::kClock)) return true;
  return file == paths.lock() || file == paths.status() || file == paths.requests() ||
         file == paths.listing() || file == beside(paths.listing()) || file == beside(paths.options());
}

bool is_used(const RunPaths& paths) {
  if (std::filesystem::exists(paths.options())) return true;
  std::error_code code;
  std::filesystem::directory_iterator entries(paths.folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    if (!is_left_over(paths, entries->path())) return true;
  }
  if (code) throw errno_error(code.value(), "list", paths.folder.string());
  return false;
}

bool holds_run(const RunPaths& paths) {
  return std::filesystem::exists(paths.lock()) || std::filesystem::exists(paths.options()) ||
         std::filesystem::exists(paths.events()) || std::filesystem::exists(paths.checkpoints());
}

[[noreturn]] void refuse_used(const RunPaths& paths) {
  if (holds_run(paths)) {
    throw Error(ErrorCode::invalid_option, quote(paths.folder.native()) + " already contains a run",
                "add --resume to continue it, or name another --output");
  }
  throw Error(ErrorCode::invalid_option,
              quote(paths.folder.native()) + " is not empty and does not contain a run",
              "name another --output");
}

std::string file_name_of(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ||
                      static_cast<unsigned char>(c) >= 0x80;
    if (!fits) c = '-';
  }
  return result.empty() || result.starts_with('.') ? "run" + result : result;
}

// The number at the end of "NAME-012".
std::optional<int64_t> number_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  const auto number = parse_number<int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

class RunFolder::Lock {
 public:
  /// made_here: the folder was made for this run, and is removed if nothing is written to it.
  explicit Lock(const RunPaths& paths, bool made_here = false)
      : paths_(paths),
        made_here_(made_here),
        descriptor_(::open(paths.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) throw errno_error(errno, "create", paths.lock().string());
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      if (reason == EINTR) continue;
      if (is_without_locks(reason)) return;
      const Error error =
          reason == EWOULDBLOCK ? in_use(paths) : errno_error(reason, "lock", paths.lock().string());
      ::close(descriptor_);
      throw error;
    }
    locked_ = true;
    write_holder(paths);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    if (made_here_ && locked_) remove_unused();
    ::close(descriptor_);
  }

  bool locked() const { return locked_; }

 private:
  // The lock is removed last but one, so that another program sees the folder as taken until then.
  void remove_unused() const {
    std::error_code code;
    const bool lone = std::distance(std::filesystem::directory_iterator(paths_.folder, code),
                                    std::filesystem::directory_iterator()) == 1;
    if (code || !lone) return;
    ::unlink(paths_.lock().c_str());
    ::rmdir(paths_.folder.c_str());
  }

  Error in_use(const RunPaths& paths) const {
    std::array<char, 300> holder{};
    const ssize_t got = ::pread(descriptor_, holder.data(), holder.size() - 1, 0);
    std::string who(holder.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    while (!who.empty() && who.back() == '\n') who.pop_back();
    return {ErrorCode::io,
            "another program is writing to the run in " + quote(paths.folder.native()) + ": " +
                (who.empty() ? "process unknown" : who),
            "wait until it ends, stop it, or name another --output"};
  }

  void write_holder(const RunPaths& paths) {
    const std::string holder = "process " + std::to_string(::getpid()) + " on " + host_name() + "\n";
    const bool written =
        ::ftruncate(descriptor_, 0) == 0 &&
        ::pwrite(descriptor_, holder.data(), holder.size(), 0) == static_cast<ssize_t>(holder.size());
    // A run can be removed from a full disk. Who holds its lock is then not said.
    if (written || errno == ENOSPC || errno == EDQUOT) return;
    const int reason = errno;
    ::close(descriptor_);
    throw errno_error(reason, "write", paths.lock().string());
  }

  const RunPaths paths_;
  const bool made_here_;
  int descriptor_;
  bool locked_ = false;
};

RunFolder::RunFolder(RunPaths paths, std::unique_ptr<Lock> lock)
    : paths_(std::move(paths)), lock_(std::move(lock)) {}
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder& RunFolder::operator=(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

bool RunFolder::locked() const { return lock_ && lock_->locked(); }

RunFolder RunFolder::create(const std::filesystem::path& folder) {
  const RunPaths paths{folder};
  if (std::filesystem::exists(folder) && !std::filesystem::is_directory(folder)) {
    throw Error(ErrorCode::invalid_option, quote(folder.native()) + " is a file, not a folder",
                "name another --output");
  }
  const bool made_here = !std::filesystem::exists(folder);
  make_folders(folder);
  return begin(paths, made_here);
}

RunFolder RunFolder::begin(const RunPaths& paths, bool made_here) {
  // An existing lock is taken first, to distinguish a run in progress from one that ended.
  if (is_used(paths) && !std::filesystem::exists(paths.lock())) refuse_used(paths);
  auto lock = std::make_unique<Lock>(paths, made_here);
  if (is_used(paths)) refuse_used(paths);
  return {paths, std::move(lock)};
}

RunFolder RunFolder::create_numbered(std::string_view name, const std::filesystem::path& parent) {
  make_folders(parent);
  while (true) {
    const std::filesystem::path folder = default_name(name, parent);
    if (::mkdir(folder.c_str(), 0755) == 0) return begin({folder}, /*made_here=*/true);
    if (errno != EEXIST) throw errno_error(errno, "create folder", folder.string());
  }
}

RunFolder RunFolder::open(const std::filesystem::path& folder) {
  const RunPaths paths{folder};
  if (!std::filesystem::is_directory(folder)) {
    throw Error(ErrorCode::not_found, "there is no run folder " + quote(folder.native()),
                "check --output, or remove --resume to start a new run");
  }
  if (!holds_run(paths) && is_used(paths)) {
    throw Error(ErrorCode::invalid_option, quote(folder.native()) + " does not contain a run",
                "check --output");
  }
  return {paths, std::make_unique<Lock>(paths)};
}

std::optional<std::filesystem::path> run_folder_around(const std::filesystem::path& file) {
  std::error_code none;
  for (std::filesystem::path at = std::filesystem::absolute(file, none); at.has_relative_path();) {
    at = at.parent_path();
    if (std::filesystem::exists(RunPaths{at}.options(), none)) return at;
  }
  return std::nullopt;
}

std::filesystem::path default_name(std::string_view name, const std::filesystem::path& parent) {
  const std::string prefix = file_name_of(name) + "-";
  int64_t highest = 0;
  std::error_code code;
  std::filesystem::directory_iterator entries(parent, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    highest = std::max(highest, number_after(entries->path().filename().string(), prefix).value_or(0));
  }
  std::string digits = std::to_string(highest + 1);
  if (digits.size() < 3) digits.insert(0, 3 - digits.size(), '0');
  return parent / (prefix + digits);
}

}  // namespace lockstep::record
