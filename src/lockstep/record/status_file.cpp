#include "lockstep/record/status_file.h"

#include <chrono>
#include <fcntl.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/json.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr size_t kBytes = 4096;  // a page: small enough to be written and read in one piece
constexpr size_t kMostText = 600;
constexpr auto kBeatInterval = std::chrono::seconds(3);

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string shortened(std::string text) {
  if (text.size() > kMostText) text = text.substr(0, kMostText) + " ...";
  return text;
}

// The hash tells a reader whether it has read a writing in progress.
std::string block_of(Status status) {
  status.reason = shortened(std::move(status.reason));
  status.hint = shortened(std::move(status.hint));
  const std::string json = lockstep::to_json(status).dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string block = json + "\n" + as_hex(hash_of(json)) + "\n";
  if (block.size() < kBytes) block.append(kBytes - 1 - block.size(), ' ').append("\n");
  return block;
}

std::optional<Status> parse_block(std::string_view block) {
  const size_t end = block.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view json = block.substr(0, end);
  const std::string hash = as_hex(hash_of(json));
  const std::string_view rest = block.substr(end + 1);
  const bool has_hash = rest.find_first_not_of(" \n") != std::string_view::npos;  // other programs may leave it out
  if (has_hash && !rest.starts_with(hash)) return std::nullopt;
  try {
    Status status;
    const Json known = known_part<Status>(parse_json(json));
    if (!known.contains("state")) return std::nullopt;  // another program's file
    lockstep::read_json(known, status, "status.json");
    return status;
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

}  // namespace

StatusWriter::StatusWriter(const std::filesystem::path& run_folder, Status status)
    : status_(std::move(status)) {
  status_.writer = this_process();
  status_.started = now_seconds();
  if (const auto kills = memory_kills()) {
    status_.memory_kills_file = kills->file;
    status_.memory_kills = kills->count;
  }
  file_ = std::make_unique<OpenFile>(RunPaths{run_folder}.status(), O_WRONLY | O_CREAT);
  write_now();
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

StatusWriter::~StatusWriter() {
  thread_.request_stop();
  changed_.notify_all();
}

void StatusWriter::set_step(int64_t step, int64_t epoch) {
  const std::lock_guard lock(mutex_);
  status_.step = step;
  status_.epoch = epoch;
}

void StatusWriter::set_state(RunState state, const std::string& reason, const std::string& hint) {
  const std::lock_guard lock(mutex_);
  if (is_final(status_.state)) return;
  status_.state = state;
  status_.reason = reason;
  status_.hint = hint;
  write_now();
}

// The caller holds the mutex, or is the only thread.
void StatusWriter::write_now() {
  status_.written = now_seconds();
  try {
    file_->write_at(0, block_of(status_));
  } catch (const Error&) {  // see the class
  }
}

void StatusWriter::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, kBeatInterval, [] { return false; });
    if (!is_final(status_.state)) write_now();
  }
}

std::optional<Status> read_status(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = RunPaths{run_folder}.status();
  constexpr int kTries = 5;
  for (int i = 0; i < kTries; ++i) {
    try {
      if (auto status = parse_block(read_file(path, int64_t{1} << 20))) return status;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::not_found) return std::nullopt;
      throw;
    }
  }
  return std::nullopt;
}

void write_status(const std::filesystem::path& run_folder, const Status& status) {
  write_file_atomic(RunPaths{run_folder}.status(), block_of(status));
}

}  // namespace lockstep::record
