#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <thread>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/json.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/internal/slurm.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

constexpr double kSharedSeconds = 5;
constexpr std::chrono::seconds kQueueLimit{30};
constexpr std::chrono::milliseconds kLockPause{50};
const std::string kFailure = "failure: ";  // begins an answer that says why there is none
constexpr int64_t kMostQueueBytes = int64_t{64} << 20;

// One file for each cluster that this user talks to.
fs::path shared_file() {
  const fs::path caches = lockstep_cache_folder();
  if (caches.empty()) return {};
  const std::string configuration = environment_variable("SLURM_CONF");
  return caches / "slurm" / ("queue-" + as_hex(hash_of(std::string_view(configuration))));
}

std::string ask_squeue(const std::stop_token& stop) {
  const CommandEnd end = run_command(
      {"squeue", "--me", "--array", "--noheader", "--states=all", std::string("--format=") + kQueueFormat},
      {.limit = kQueueLimit, .stop = stop});
  if (end.status == 0) return end.output;
  throw Error(ErrorCode::cluster,
              end.out_of_time ? "squeue did not answer within " + std::to_string(kQueueLimit.count()) + " s"
                              : "squeue failed: " + printable(first_line(end.errors)),
              end.status == 127 ? "run this where Slurm's commands are, or set \"login\" in the profile"
                                : "look whether Slurm's controller is there: scontrol ping");
}

// Holds a lock file, so that of several programs one asks and the others read its answer.
Descriptor lock_beside(const fs::path& file, const std::stop_token& stop = {}) {
  std::error_code none;
  fs::create_directories(file.parent_path(), none);
  Descriptor lock(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  while (lock && ::flock(lock.get(), stop.stop_possible() ? LOCK_EX | LOCK_NB : LOCK_EX) != 0 &&
         (errno == EWOULDBLOCK || errno == EINTR)) {
    if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "stopped waiting for squeue");
    std::this_thread::sleep_for(kLockPause);
  }
  return lock;
}

// Without it, for instance on a full disk, every program asks.
void share(const fs::path& file, const std::string& text) {
  try {
    write_file_atomic(file, text);
  } catch (const Error&) {
    std::error_code none;
    fs::remove(file, none);
  }
}

// The answer that is shared, if it is young enough. Its first line is the time.
std::optional<std::string> young_answer(const fs::path& file) {
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  const std::string text = read_file(file, kMostQueueBytes);
  const size_t end = text.find('\n');
  const auto time = parse_number<double>(text.substr(0, end));
  if (end == std::string::npos || !time) return std::nullopt;
  const double age = now_seconds() - *time;
  if (age < 0 || age > kSharedSeconds) return std::nullopt;
  return text.substr(end + 1);
}

// Of another program, or of this one a moment ago.
Error failure_in(const std::string& answer) {
  const std::string line = first_line(answer).substr(kFailure.size());
  try {
    const Json json = parse_json(line);
    return {ErrorCode::cluster, json.at(0).get<std::string>(), json.at(1).get<std::string>()};
  } catch (const Json::exception&) {
    return {ErrorCode::cluster, "squeue failed"};
  }
}

}  // namespace

Phase phase_of_slurm(std::string_view word, std::string_view reason) {
  struct Row {
    std::string_view word;
    Phase phase;
  };
  static constexpr std::array<Row, 26> kRows{
      {{"PENDING", Phase::queued},       {"REQUEUED", Phase::queued},      {"REQUEUE_FED", Phase::queued},
       {"REQUEUE_HOLD", Phase::queued},  {"SPECIAL_EXIT", Phase::queued},  {"SUSPENDED", Phase::queued},
       {"RESV_DEL_HOLD", Phase::queued}, {"POWER_UP_NODE", Phase::queued}, {"RUNNING", Phase::running},
       {"CONFIGURING", Phase::running},  {"COMPLETING", Phase::running},   {"RESIZING", Phase::running},
       {"SIGNALING", Phase::running},    {"STAGE_OUT", Phase::running},    {"STOPPED", Phase::running},
       {"COMPLETED", Phase::ended},      {"CANCELLED", Phase::cancelled},  {"FAILED", Phase::failed},
       {"TIMEOUT", Phase::failed},       {"NODE_FAIL", Phase::failed},     {"BOOT_FAIL", Phase::failed},
       {"DEADLINE", Phase::failed},      {"OUT_OF_MEMORY", Phase::failed}, {"PREEMPTED", Phase::failed},
       {"LAUNCH_FAILED", Phase::failed}, {"REVOKED", Phase::cancelled}}};
  if (reason == "DependencyNeverSatisfied") return Phase::failed;
  for (const Row& row : kRows) {
    if (row.word == word) return row.phase;
  }
  return Phase::unknown;
}

std::string value_in_job(std::string_view said, const std::string& key) {
  const std::string begin = " " + key + "=";
  const size_t at = said.find(begin);
  if (at == std::string_view::npos) return "";
  const std::string_view value = said.substr(at + begin.size());
  return std::string(value.substr(0, value.find_first_of(" \n")));
}

bool is_being_cancelled(std::string_view said, std::string_view restarts) {
  const std::string state = value_in_job(said, "JobState"), preempted = value_in_job(said, "PreemptTime");
  if (state == "CANCELLED") return true;
  return state == "COMPLETING" && value_in_job(said, "Reason") == "None" &&
         (preempted.empty() || preempted == "None") && value_in_job(said, "Restarts") == restarts;
}

std::map<std::string, QueueLine> read_queue(std::string_view text) {
  std::map<std::string, QueueLine> lines;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> parts = split(line, '|');
    if (parts.size() < 5 || parts[0].empty()) continue;
    const std::string reason = parts[2] == "None" ? "" : parts[2];
    lines[parts[0]] = {.standing = {.phase = phase_of_slurm(parts[1], reason),
                                    .word = parts[1],
                                    .reason = reason,
                                    .nodes = parts[3]},
                       .name = parts[4]};
  }
  return lines;
}

std::map<std::string, QueueLine> shared_queue(const std::stop_token& stop) {
  const fs::path file = shared_file();
  if (file.empty()) return read_queue(ask_squeue(stop));
  const Descriptor lock = lock_beside(file, stop);
  if (const auto answer = young_answer(file)) {
    if (answer->starts_with(kFailure)) throw failure_in(*answer);
    return read_queue(*answer);
  }
  const auto share_now = [&](const std::string& answer) {
    share(file, fixed(now_seconds(), 3) + "\n" + answer);
  };
  try {
    const std::string answer = ask_squeue(stop);
    share_now(answer);
    return read_queue(answer);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled) throw;
    share_now(kFailure +
              Json{error.message(), error.hint()}.dump(-1, ' ', false, Json::error_handler_t::replace) +
              "\n");
    throw;
  }
}

void add_to_shared_queue(const std::string& id, const std::string& name) {
  const fs::path file = shared_file();
  if (file.empty()) return;
  const Descriptor lock = lock_beside(file);
  std::error_code none;
  if (!fs::exists(file, none)) return;
  share(file, read_file(file, kMostQueueBytes) + id + "|PENDING|None||" + name + "\n");
}

void forget_shared_queue() {
  const fs::path file = shared_file();
  if (file.empty()) return;
  const Descriptor lock = lock_beside(file);
  std::error_code none;
  fs::remove(file, none);
}

}  // namespace lockstep::cluster
