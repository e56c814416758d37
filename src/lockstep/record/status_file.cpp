#include "lockstep/record/status_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/json.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/thread_name.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/network_disk.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr size_t kBytes = 4096;  // a page: small enough to be written and read in one piece
constexpr std::array<size_t, 4> kMostText{600, 300, 100, 0};  // JSON takes up to 6 bytes for one of them
constexpr auto kBeatInterval = std::chrono::seconds(3);

std::string shortened(const std::string& text, size_t most) {
  return text.size() > most ? text.substr(0, most) + " ..." : text;
}

// The hash tells a reader whether it has read a writing in progress.
std::string hashed(const Status& status) {
  const std::string json = lockstep::to_json(status).dump(-1, ' ', true, Json::error_handler_t::replace);
  return json + "\n" + as_hex(hash_of(json)) + "\n";
}

std::string block_of(const Status& status) {
  std::string block;
  for (const size_t most : kMostText) {
    Status fitting = status;
    fitting.reason = shortened(status.reason, most);
    fitting.hint = shortened(status.hint, most);
    if (most == 0) fitting.memory_kills_file.clear();  // a path may be as long as the block
    block = hashed(fitting);
    if (block.size() <= kBytes) break;
  }
  if (block.size() < kBytes) block.append(kBytes - 1 - block.size(), ' ').append("\n");
  return block;
}

bool is_hash(std::string_view line) {
  return line.size() == 16 &&
         std::all_of(line.begin(), line.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// Other programs may leave the line with the hash out, and fill the block with any of these.
std::optional<Status> parse_block(std::string_view block) {
  constexpr std::string_view kFillings(" \t\r\n\0", 5);
  std::string_view json = block.substr(0, block.find_last_not_of(kFillings) + 1);
  const size_t last_line = json.rfind('\n');
  if (last_line != std::string_view::npos && is_hash(json.substr(last_line + 1))) {
    const std::string_view hash = json.substr(last_line + 1);
    json = json.substr(0, last_line);
    if (as_hex(hash_of(json)) != hash) return std::nullopt;
  }
  try {
    const Json values = parse_json(json);
    if (!values.is_object() || !values.contains("state")) return std::nullopt;
    Status status;
    lockstep::read_json(known_part<Status>(values), status, "status.json");
    return status;
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

// To open a pipe would wait, and a link would lead elsewhere.
std::filesystem::path path_to_write(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = RunPaths{run_folder}.status();
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) ::unlink(path.c_str());
  return path;
}

// The beginning of the file; nothing without a file that can hold a status.
std::optional<std::string> read_block(const std::filesystem::path& path) {
  constexpr size_t kMostBytes = 4 * kBytes;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!file && (errno == EACCES || errno == EMFILE || errno == ENFILE))
    throw errno_error(errno, "open", path.string());
  if (!file || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  std::string bytes(kMostBytes, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace

StatusWriter::StatusWriter(const std::filesystem::path& run_folder, Status status)
    : status_(std::move(status)), is_on_network_(is_on_network(run_folder)) {
  status_.writer = this_process();
  status_.started = now_seconds();
  if (const auto kills = memory_kills()) {
    status_.memory_kills_file = kills->file;
    status_.memory_kills = kills->count;
  }
  file_ = std::make_unique<OpenFile>(path_to_write(run_folder), O_WRONLY | O_CREAT);
  if (::ftruncate(file_->get(), kBytes) != 0) {
    // A longer file of another program keeps its end, which readers take for damage.
  }
  write_now();
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

StatusWriter::~StatusWriter() {
  thread_.request_stop();
  thread_.join();
  // Its process may go on for long, which would look as if the run did.
  set_state(RunState::failed, "the program has left the run without saying how it ended");
}

void StatusWriter::set_step(int64_t step, int64_t epoch) {
  const std::lock_guard lock(mutex_);
  if (step < status_.step) return;
  status_.step = step;
  status_.epoch = epoch;
}

void StatusWriter::set_total_steps(int64_t total_steps) {
  const std::lock_guard lock(mutex_);
  status_.total_steps = total_steps;
}

void StatusWriter::set_best(double accuracy, int64_t step) {
  const std::lock_guard lock(mutex_);
  status_.best_accuracy = accuracy;
  status_.best_step = step;
}

void StatusWriter::begin_again() {
  const std::lock_guard lock(mutex_);
  status_.step = status_.epoch = 0;
  status_.best_accuracy.reset();
  status_.best_step.reset();
}

void StatusWriter::set_state(RunState state, const std::string& reason, const std::string& hint) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    status_.state = state;
    status_.reason = reason;
    status_.hint = hint;
    has_ended_ = is_final(state);
  }
  write_now();
}

void StatusWriter::restore(const std::optional<Status>& earlier) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    if (earlier) status_ = *earlier;
    has_ended_ = true;
  }
  if (earlier) return write_now();
  const std::lock_guard one_after_another(writing_);
  ::unlink(file_->path().c_str());
}

bool StatusWriter::has_ended() {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

// Without mutex_, for which a training step would wait as long as the disk takes.
void StatusWriter::write_now() {
  const std::lock_guard one_after_another(writing_);
  Status status;
  {
    const std::lock_guard lock(mutex_);
    status_.written = now_seconds();
    status = status_;
  }
  try {
    file_->write_at(0, block_of(status));
    if (is_on_network_) ::fdatasync(file_->get());
  } catch (const Error&) {  // see the class
  }
}

void StatusWriter::work(const std::stop_token& stop) {
  name_this_thread("run status");
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, kBeatInterval, [] { return false; });
    if (stop.stop_requested() || has_ended()) return;
    write_now();
  }
}

std::optional<Status> read_status(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = RunPaths{run_folder}.status();
  constexpr int kTries = 5;  // while it is being written
  for (int i = 0; i < kTries; ++i) {
    const auto block = read_block(path);
    if (!block) return std::nullopt;
    if (auto status = parse_block(*block)) return status;
    if (!block->starts_with('{')) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
  }
  return std::nullopt;
}

void write_status(const std::filesystem::path& run_folder, const Status& status) {
  write_file_atomic(RunPaths{run_folder}.status(), block_of(status));
}

}  // namespace lockstep::record
