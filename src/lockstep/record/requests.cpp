#include "lockstep/record/requests.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/text.h"
#include "lockstep/base/thread_name.h"
#include "lockstep/record/gone_folder.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(100);
constexpr int kMostLooks = 3;  // at what is no request
constexpr int64_t kMostBytes = 4096;
constexpr std::string_view kEnding = ".json";

std::string this_user() {
  const passwd* user = ::getpwuid(::geteuid());
  return (user != nullptr ? std::string(user->pw_name) : std::to_string(::geteuid())) + "@" + host_name();
}

// In the order in which they were made. A link could lead to files that are nobody's requests.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(folder, code))) return files;
  std::filesystem::directory_iterator entries(folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    const std::string name = entries->path().filename().string();
    if (name.ends_with(kEnding) && !name.starts_with('.')) files.push_back(entries->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool remove_file(const std::filesystem::path& file) {
  std::error_code code;
  std::filesystem::remove(file, code);
  return !code;
}

// The one who may write the run may ask for something.
bool is_trusted(int descriptor, const std::filesystem::path& run_folder) {
  struct stat file {
  }, run{};
  if (::fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode)) return false;
  if (file.st_uid == ::geteuid() || file.st_uid == 0) return true;
  return ::stat(run_folder.c_str(), &run) == 0 && file.st_uid == run.st_uid;
}

Descriptor open_request(const std::filesystem::path& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

Request read_request(int descriptor, const std::filesystem::path& path) {
  std::string bytes(kMostBytes + 1, '\0');
  const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), 0);
  if (got < 0 || got > kMostBytes)
    throw Error(ErrorCode::corrupt_data, quote(path.native()) + " is not a request");
  bytes.resize(static_cast<size_t>(got));
  Request request;
  try {
    const Json values = parse_json(bytes);
    if (!values.is_object() || !values.contains("request"))
      throw Error(ErrorCode::corrupt_data, quote(path.native()) + " does not say what it asks for");
    lockstep::read_json(known_part<Request>(values), request, path.string());
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(path.native()) + " is not a request: " + error.what());
  }
  request.id = path.stem().string();
  return request;
}

}  // namespace

std::string make_request(const std::filesystem::path& run_folder, Request request) {
  const std::filesystem::path folder = RunPaths{run_folder}.requests();
  make_folders(folder);
  if (request.from.empty()) request.from = this_user();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string time = std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  request.id = time + "-" + random_hex(4);
  write_file_atomic(folder / (request.id + std::string(kEnding)), lockstep::to_json(request).dump() + "\n");
  return request.id;
}

bool is_taken(const std::filesystem::path& run_folder, const std::string& id) {
  const std::filesystem::path file = RunPaths{run_folder}.requests() / (id + std::string(kEnding));
  return ::access(file.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

bool is_end_asked(const std::filesystem::path& run_folder) {
  const std::vector<std::filesystem::path> files = files_in(RunPaths{run_folder}.requests());
  return std::any_of(files.begin(), files.end(), [&](const std::filesystem::path& path) {
    const Descriptor file = open_request(path);
    if (!file || !is_trusted(file.get(), run_folder)) return false;
    try {
      const RequestKind asked = read_request(file.get(), path).request;
      return asked == RequestKind::stop || asked == RequestKind::finish;
    } catch (const Error&) {
      return false;
    }
  });
}

RequestWatch::RequestWatch(const std::filesystem::path& run_folder)
    : run_folder_(run_folder), folder_(RunPaths{run_folder}.requests()) {
  // Made by another user who asks first, it would be a folder in which the run cannot remove anything.
  std::error_code ignored;
  std::filesystem::create_directory(folder_, ignored);
  for (const std::filesystem::path& file : files_in(folder_)) {
    if (!remove_file(file)) not_removable_.insert(file);
  }
}

void RequestWatch::begin(Take take, Refuse refuse, Gone gone) {
  take_ = std::move(take);
  refuse_ = std::move(refuse);
  gone_ = std::move(gone);
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void RequestWatch::look() {
  if (gone_ && is_gone(run_folder_)) std::exchange(gone_, nullptr)();
  for (const std::filesystem::path& path : files_in(folder_)) {
    if (not_removable_.contains(path)) continue;
    const Descriptor file = open_request(path);
    if (!file && errno == ENOENT) continue;
    if (!file || !is_trusted(file.get(), run_folder_)) {
      refuse_("a request was refused: " + quote(path.native()) + " is not from the owner of the run");
    } else if (!is_answered(file.get(), path)) {
      continue;
    }
    looks_.erase(path);
    if (!remove_file(path)) not_removable_.insert(path);
  }
}

// False for what may be a request that is being written, as `echo` does it.
bool RequestWatch::is_answered(int descriptor, const std::filesystem::path& path) {
  std::optional<Request> request;
  try {
    request = read_request(descriptor, path);
  } catch (const Error& error) {
    if (++looks_[path] < kMostLooks) return false;
    refuse_("a request was refused: " + error.message());
    return true;
  }
  take_(*request);
  return true;
}

void RequestWatch::work(const std::stop_token& stop) {
  name_this_thread("run requests");
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, kLookInterval, [] { return false; });
    if (!stop.stop_requested()) look();
  }
}

}  // namespace lockstep::record
