#include "lockstep/record/state.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/log_ends.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/network_disk.h"
#include "lockstep/record/not_a_run.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr double kClockError = 1;  // of a process's start, which the kernel counts in whole seconds

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<double> modified(const std::filesystem::path& path) {
  // An open makes a network file system ask its server.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file ? ::fstat(file.get(), &status) != 0 : ::stat(path.c_str(), &status) != 0) return std::nullopt;
  return seconds_of(status.st_mtim);
}

// The file system's time now.
double time_in(const std::filesystem::path& folder) {
  std::string name = (folder / (std::string(RunPaths::kClock) + "XXXXXX")).string();
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  struct stat status {};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (!file) return seconds_of(now);
  // A server's time is set by a writing, and seen after the next look. A full disk leaves that of the making.
  if (::write(file.get(), "\n", 1) == 1 && is_on_network(folder)) ::fsync(file.get());
  const bool seen = ::fstat(file.get(), &status) == 0;
  ::unlink(name.c_str());
  return seen ? seconds_of(status.st_mtim) : seconds_of(now);
}

// The last sign of the writer: its status, else its newest log, else its lock.
std::optional<double> last_sign(const std::filesystem::path& run_folder) {
  const RunPaths paths{run_folder};
  std::optional<double> last = modified(paths.status());
  for (const LogFile& file : log_files(run_folder)) {
    if (const auto time = modified(file.path); time && (!last || *time > *last)) last = time;
  }
  return last ? last : modified(paths.lock());
}

void judge_silence(const std::filesystem::path& run_folder, StateOfRun& found) {
  const auto last = last_sign(run_folder);
  found.silent_seconds = last ? std::max(0.0, time_in(run_folder) - *last) : 0;
  const double most = is_on_network(run_folder) ? kLostSecondsOverNetwork : kLostSeconds;
  if (last && found.silent_seconds <= most) return;
  found.state = RunState::lost;
  // Without its age, because lists of runs keep the reason.
  found.reason = "no sign of it for more than " + as_duration(most) +
                 (found.host.empty() ? "" : "; it ran on " + found.host);
}

std::string reason_of_lost(const Status& status) {
  if (!status.memory_kills_file.empty()) {
    const auto kills = memory_kills_in(status.memory_kills_file);
    if (kills && *kills > status.memory_kills)
      return "the process is gone, and the kernel has killed a process of its cgroup because memory ran out";
  }
  return "the process is gone";
}

// A status whose writer may be gone.
void judge_writer(const std::filesystem::path& run_folder, const Status& status, StateOfRun& found) {
  const std::optional<bool> there = is_there(status.writer);
  if (!there) return judge_silence(run_folder, found);
  if (*there) return;
  found.state = RunState::lost;
  found.reason = reason_of_lost(status);
}

StateOfRun from_status(const std::filesystem::path& run_folder, const Status& status) {
  StateOfRun found{.state = status.state,
                   .reason = status.reason,
                   .hint = status.hint,
                   .attempt = status.attempt,
                   .step = status.step,
                   .epoch = status.epoch,
                   .total_steps = status.total_steps,
                   .best_accuracy = status.best_accuracy,
                   .best_step = status.best_step,
                   .host = status.writer.host};
  if (status.state == RunState::running || status.state == RunState::stopping)
    judge_writer(run_folder, status, found);
  return found;
}

struct Holder {
  int64_t process = 0;
  std::string host;
};

// "process 7364 on host"
std::optional<Holder> holder_of(const std::filesystem::path& lock) {
  constexpr int64_t kMostBytes = 4096;
  std::string line;
  try {
    line = first_line(read_file(lock, kMostBytes));
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::vector<std::string> words = split(line, ' ');
  if (words.size() != 4 || words[0] != "process") return std::nullopt;
  const auto process = parse_number<int64_t>(words[1]);
  return process ? std::optional(Holder{*process, words[3]}) : std::nullopt;
}

// Of a run without a status, which an earlier version or another program has written.
StateOfRun from_events(const std::filesystem::path& run_folder) {
  StateOfRun found;
  std::optional<Event> last_word;
  const LogEnds ends = ends_of_log(run_folder);
  const auto take = [&](const Event& event) {
    if (event.writer != rank_writer(0)) return;
    if (event.attempt > found.attempt) last_word.reset();
    if (event.kind == PlanOfRun::kind) {
      found.total_steps = static_cast<int64_t>(std::clamp(number(event, "total_steps", 0), 0.0, 1e15));
    }
    if (event.kind == End::kind || event.kind == Failed::kind) last_word = event;
    found.attempt = std::max(found.attempt, event.attempt);
    found.step = std::max(found.step, event.step);
    found.epoch = std::max(found.epoch, event.epoch);
  };
  for (const auto* events : {&ends.first, &ends.last, &ends.newest})
    std::for_each(events->begin(), events->end(), take);
  if (last_word) {
    const bool ended = last_word->kind == End::kind;
    found.reason = text(*last_word, ended ? "reason" : "error");
    found.hint = text(*last_word, "hint");
    found.state = !ended ? RunState::failed : found.reason == "stopped" ? RunState::stopped : RunState::ended;
    return found;
  }
  const auto holder = holder_of(RunPaths{run_folder}.lock());
  if (holder) found.host = holder->host;
  if (holder && holder->host == host_name()) {
    ProcessIdentity writer = this_process();
    writer.process = holder->process;
    writer.process_start = 0;
    const std::optional<bool> there = is_there(writer);
    if (there == false) {
      found.state = RunState::lost;
      found.reason = "the process is gone";
      return found;
    }
    // A later process with its number has not written the lock.
    const auto started = start_time(holder->process), locked = modified(RunPaths{run_folder}.lock());
    if (there == true && started && locked && *started <= *locked + kClockError) return found;
  }
  judge_silence(run_folder, found);
  return found;
}

}  // namespace

bool holds_run(const std::filesystem::path& folder) {
  const RunPaths paths{folder};
  const auto exists = [](const std::filesystem::path& path) { return ::access(path.c_str(), F_OK) == 0; };
  return exists(paths.status()) || exists(paths.options()) || exists(paths.events());
}

StateOfRun state_of(const std::filesystem::path& run_folder) {
  if (!holds_run(run_folder) && ::access(RunPaths{run_folder}.lock().c_str(), F_OK) != 0)
    throw not_a_run(run_folder);
  if (const auto status = read_status(run_folder)) return from_status(run_folder, *status);
  return from_events(run_folder);
}

}  // namespace lockstep::record
