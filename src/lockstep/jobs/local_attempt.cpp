#include "lockstep/jobs/local_attempt.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/attempt_end.h"
#include "lockstep/jobs/fetched_files.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/jobs/surroundings.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookInterval{200};
constexpr std::chrono::seconds kGrace{20};  // in which a command can save and end; a run saves its checkpoint

sigset_t watched_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&signals, signal);
  return signals;
}

void set_variable(const std::string& entry) {
  const size_t sign = entry.find('=');
  if (sign != std::string::npos && sign > 0)
    ::setenv(entry.substr(0, sign).c_str(), entry.c_str() + sign + 1, 1);
}

// The variables of the submitter, the values of its secrets as far as this process has them, and the job's
// own.
void set_variables(const BegunAttempt& begun, const Variables& own) {
  ::clearenv();
  for (const std::string& entry : read_variables(begun.paths)) set_variable(entry);
  for (const std::string& name : begun.spec.secrets) {
    if (const auto found = own.find(name); found != own.end())
      ::setenv(name.c_str(), found->second.c_str(), 1);
  }
  for (const std::string& entry : job_environment(begun.paths, begun.spec, begun.attempt))
    set_variable(entry);
}

class Command {
 public:
  explicit Command(const BegunAttempt& begun) : begun_(begun), paths_(begun.paths) {
    const sigset_t signals = watched_signals();
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw errno_error(errno, "watch", "signals");
    const std::string& folder = begun.spec.working_folder;
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) throw errno_error(errno, "enter", folder);
    const fs::path diary = paths_.diary(begun.attempt);
    const Descriptor output(::open(diary.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!output) throw errno_error(errno, "write", diary.string());
    const std::vector<std::string> words = command_of(begun.spec);
    // Until it is written which command runs, it ends with this process: a command that runs can be ended.
    const launch::Gate gate;
    process_ = launch::start_process({.program = words.front(),
                                      .words = words,
                                      .output = output.get(),
                                      .errors = output.get(),
                                      .passed = begun.lock.descriptor(),
                                      .gate = gate.descriptor(),
                                      .lifetime = launch::Lifetime::detached});
    const Started started{
        .runner = record::this_process(), .command = record::identity_of(process_), .time = now_seconds()};
    try {
      // Also after a loss of power: a command that has run does not count as never started.
      write_file_atomic(paths_.started(begun.attempt), to_json(started).dump() + "\n");
    } catch (...) {
      launch::kill_group(process_);  // nobody would wait for it
      throw;
    }
    gate.open(1);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Until it has ended; its status of waitpid.
  int wait() {
    while (true) {
      read_signals();
      if (const auto end = launch::try_wait_for_end(process_)) return end->status.value_or(0);
      if (!is_asked_ && (signal_ != 0 || is_marked_cancelled(paths_))) ask_to_end(SIGTERM);
      if (is_asked_ && Clock::now() > asked_ + kGrace) launch::signal_group(process_, SIGKILL);
      pollfd waits{signals_.get(), POLLIN, 0};
      ::poll(&waits, 1, static_cast<int>(kLookInterval.count()));
    }
  }

  int signal() const { return signal_; }  ///< that asked this process to end; 0: none

  /// Of what it has started and left behind. It would hold the lock, for which the next attempt waits.
  void kill_rest() const { launch::signal_group(process_, SIGKILL); }

 private:
  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD || signal_ != 0) continue;
      signal_ = signal;
      ask_to_end(signal);
    }
  }

  void ask_to_end(int signal) {
    // Before it has made its own group it cannot be asked; a second signal would kill a run that saves.
    is_asked_ = launch::signal_group(process_, signal);
    asked_ = Clock::now();
  }

  const BegunAttempt& begun_;
  const JobPaths paths_;
  Descriptor signals_;
  pid_t process_ = -1;
  int signal_ = 0;
  bool is_asked_ = false;
  Clock::time_point asked_{};
};

bool is_run_stopped(const JobSpec& spec) {
  const auto run = state_of_runs(spec);
  return run && run->state == record::RunState::stopped;
}

// By somebody or something else, so that another attempt may fare better.
bool was_killed(int status) {
  const int signal = status - launch::kSignalStatus;
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

AttemptEnd end_of(const BegunAttempt& begun, int status, int signal) {
  if (status == 0 && (signal == 0 || !is_run_stopped(begun.spec))) return AttemptEnd::ended;
  if (is_marked_cancelled(begun.paths)) return AttemptEnd::cancelled;
  if (!may_start_again(begun.spec)) return AttemptEnd::failed;
  if (signal != 0 || (was_killed(status) && is_run_stopped(begun.spec))) return AttemptEnd::stopped;
  return was_killed(status) ? AttemptEnd::lost : AttemptEnd::failed;
}

std::string how_it_ended(int status) {
  if (status == 0) return "";
  if (status <= launch::kSignalStatus) return "ended with status " + std::to_string(status);
  const char* name = ::sigabbrev_np(status - launch::kSignalStatus);
  return "was killed by signal " + std::to_string(status - launch::kSignalStatus) +
         (name == nullptr ? "" : std::string(" (SIG") + name + ")");
}

// The run's own words, else the command's last line.
std::string reason_of(const BegunAttempt& begun, const AttemptResult& result) {
  if (result.end == AttemptEnd::ended) return is_run_stopped(begun.spec) ? "stopped on request" : "";
  if (result.end == AttemptEnd::cancelled) return "";
  const auto run = state_of_runs(begun.spec);
  if (run && run->state == record::RunState::failed && !run->reason.empty()) return run->reason;
  const std::string how = how_it_ended(static_cast<int>(result.status));
  const std::string last = printable(last_line_of(begun.paths.diary(begun.attempt)));
  return how + (last.empty() ? "" : "; its last line: " + last);
}

void bound(const BegunAttempt& begun, AttemptResult& result) {
  if (is_final(result.end) || is_worth_another(begun.paths, begun.spec, result.attempt, result.step)) return;
  result.end = AttemptEnd::failed;
  result.reason +=
      begun.spec.run_folder.empty() ? "; it was killed too often" : "; three attempts made no step";
}

}  // namespace

void signal_left(const Started& started, int signal) {
  const auto process = static_cast<pid_t>(started.command.process);
  // The system gives the number of a group that has a process to nobody else.
  const bool is_own = process > 0 && (record::is_there(started.command) == true ||
                                      (::kill(process, 0) != 0 && errno == ESRCH));
  if (is_own) ::kill(-process, signal);
}

std::optional<Started> read_started(const JobPaths& paths, int64_t attempt) {
  constexpr int64_t kMostBytes = 65'536;
  const fs::path file = paths.started(attempt);
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  try {
    Started started;
    read_json(record::known_part<Started>(parse_json(read_file(file, kMostBytes))), started, "");
    return started;
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

bool run_local_attempt(const BegunAttempt& begun, const Variables& own) {
  AttemptResult result{.attempt = begun.attempt, .nodes = host_name(), .started = now_seconds()};
  const FetchedFiles files(begun.spec);
  int signal = 0;
  try {
    sync_attempt(begun.paths);
    set_variables(begun, own);
    Command command(begun);
    result.status = launch::exit_status(command.wait());
    signal = command.signal();
    result.step = step_of(begun.spec);
    result.end = end_of(begun, static_cast<int>(result.status), signal);
    if (result.end != AttemptEnd::ended) command.kill_rest();
    result.reason = reason_of(begun, result);
  } catch (const Error& error) {
    result.end = AttemptEnd::failed;
    result.reason = error.message();
  }
  bound(begun, result);
  add_reason(files.copy(begun.paths, begun.attempt), result);
  result.ended = now_seconds();
  // Its lock says meanwhile that the job is not over.
  const int asked = write_when_there_is_space(begun.paths, begun.attempt, {SIGTERM, SIGINT, SIGHUP},
                                              [&] { end_attempt(begun.paths, result); });
  if (asked != 0) signal = asked;
  if (::chdir("/") != 0) return signal == 0;  // so that the folder can be removed
  return signal == 0;
}

AttemptResult result_of_lost(const JobPaths& paths, const JobSpec& spec, int64_t attempt) {
  const auto started = read_started(paths, attempt);
  AttemptResult result{.end = AttemptEnd::failed,
                       .attempt = attempt,
                       .status = launch::kSignalStatus + SIGKILL,
                       .step = step_of(spec),
                       .nodes = spec.host,
                       .started = started ? started->time : 0,
                       .ended = now_seconds()};
  if (have_runs_ended(spec)) {
    result.end = AttemptEnd::ended;
    result.status = 0;
    return result;
  }
  if (::access(paths.started(attempt).c_str(), F_OK) != 0) {
    result.end = is_marked_cancelled(paths) ? AttemptEnd::cancelled : AttemptEnd::lost;
    result.reason = "it was killed before its command was started";
    return result;
  }
  const bool other_boot =
      started && !started->command.boot.empty() && started->command.boot != record::this_process().boot;
  result.reason = other_boot ? "the machine was started again while it ran"
                             : "the process that waited for its end was killed, so how it ended is not known";
  if (is_marked_cancelled(paths)) {
    result.end = AttemptEnd::cancelled;
    result.reason.clear();
  } else if (may_start_again(spec)) {
    result.end = AttemptEnd::lost;
    if (!is_worth_another(paths, spec, attempt, result.step)) {
      result.end = AttemptEnd::failed;
      result.reason += "; further attempts would be no better";
    }
  }
  return result;
}

}  // namespace lockstep::jobs
