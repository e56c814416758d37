#include "lockstep/cluster/slurm_attempt.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/internal/end_of_file.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/cluster/internal/owner.h"
#include "lockstep/jobs/attempt_end.h"
#include "lockstep/jobs/attempt_error.h"
#include "lockstep/jobs/fetched_files.h"
#include "lockstep/jobs/job_folder.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/jobs/local_attempt.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using jobs::AttemptEnd;
using jobs::AttemptResult;
using jobs::JobPaths;
using jobs::JobSpec;
using Say = std::function<void(const std::string&)>;

constexpr int kLostStatus = 113;           // of a rank that another one's failure ended
constexpr int64_t kEndOfDiary = 4096;      // bytes
constexpr int64_t kLongestRefusal = 4096;  // bytes that srun writes when it starts nothing
constexpr std::chrono::seconds kOrphanLimit{120};
constexpr std::chrono::seconds kRequeueLimit{60};
constexpr std::chrono::milliseconds kLookInterval{500};
constexpr std::chrono::seconds kRunLookInterval{2};
constexpr std::chrono::seconds kRequestInterval{5};
// A rank leaves by itself some seconds after its work (cli/bounded_ending.h), unless it cannot run at all.
constexpr std::chrono::seconds kOutlivedLimit{20};

// Of an array the id of the element.
std::string own_id() {
  const std::string array = environment_variable("SLURM_ARRAY_JOB_ID");
  if (!array.empty()) return array + "_" + environment_variable("SLURM_ARRAY_TASK_ID");
  const std::string id = environment_variable("SLURM_JOB_ID");
  if (id.empty())
    throw Error(ErrorCode::invalid_option, "this program is no job of Slurm: SLURM_JOB_ID is not set",
                "lockstep batch submits jobs");
  return id;
}

// Ranks of an earlier attempt may still run on a machine that Slurm has given up. They hold the run, and end
// when the run is asked to stop.
void wait_for_orphans(const JobSpec& spec, const Say& say) {
  if (spec.run_folder.empty() || !jobs::has_begun(spec.run_folder)) return;
  const auto end = Clock::now() + kOrphanLimit;
  bool asked = false;
  while (true) {
    try {
      record::RunFolder::open(spec.run_folder);
      return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io || Clock::now() > end) throw;
      if (!asked) say("an earlier attempt still writes to the run, and is asked to stop: " + error.message());
    }
    const auto runs = jobs::runs_in(spec.run_folder);
    if (!asked && !runs.empty()) record::make_request(runs.back(), {.from = "a later attempt"});
    asked = true;
    std::this_thread::sleep_for(kLookInterval);
  }
}

sigset_t watched_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGTERM, SIGCHLD}) ::sigaddset(&signals, signal);
  return signals;
}

// The step of Slurm in which the ranks run.
class Step {
 public:
  Step(const JobSpec& spec, const JobPaths& paths, int64_t attempt)
      : paths_(paths), spec_(spec), attempt_(attempt) {
    const sigset_t signals = watched_signals();
    signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw errno_error(errno, "watch", "signals");
    // One that came to the script, before this program.
    if (const std::string early = environment_variable(kEarlySignal); !early.empty())
      ::kill(::getpid(), early == "USR1" ? SIGUSR1 : SIGTERM);
    const fs::path diary = paths.diary(attempt);
    Descriptor output(::open(diary.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!output) throw errno_error(errno, "write", diary.string());
    launch::Start start{
        .program = "srun", .words = srun_words(read_profile(paths.profile())), .input = launch::kNull};
    if (!spec.working_folder.empty()) start.words.push_back("--chdir=" + spec.working_folder);
    for (std::string& word : jobs::command_of(spec)) start.words.push_back(std::move(word));
    start.environment = jobs::job_environment(paths, spec, attempt);
    start.environment.push_back("LOCKSTEP_SECRET=" + random_hex(32));
    start.environment.push_back("LOCKSTEP_LOST_STATUS=" + std::to_string(kLostStatus));
    // A rank that has saved must not be taken for one that failed, for whose sake all are killed.
    start.environment.emplace_back("LOCKSTEP_STOPPED_STATUS=0");
    start.output = start.errors = output.get();
    process_ = launch::start_process(start);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() {
    if (process_ <= 0) return;
    launch::kill_group(process_);
  }

  /// Until srun has ended; its exit status.
  int wait(const std::string& id, const Say& say) {
    while (true) {
      if (const auto end = launch::try_wait_for_end(process_)) {
        process_ = -1;
        return launch::exit_status(end->status.value_or(0));
      }
      pollfd waits{signals_.get(), POLLIN, 0};
      ::poll(&waits, 1, static_cast<int>(kLookInterval.count()));
      read_signals(say);
      if (signal_ != 0 && Clock::now() >= next_request_) ask_to_save(id, say);
      if (!is_fenced_ && jobs::newest_attempt(paths_) > attempt_) {
        is_fenced_ = true;
        say("a later attempt began; this one ends");
        launch::signal_group(process_, SIGKILL);
      }
      if (!has_outlived_run_ && is_run_long_over()) {
        has_outlived_run_ = true;
        say("the run is over, and ranks that do not end are left");
        launch::signal_group(process_, SIGKILL);
      }
    }
  }

  fs::path diary() const { return paths_.diary(attempt_); }
  int signal() const { return signal_; }  ///< that asked for the end; 0: none
  bool is_fenced() const { return is_fenced_; }
  bool has_outlived_run() const { return has_outlived_run_; }

 private:
  bool is_run_long_over() {
    if (spec_.run_folder.empty() || Clock::now() < next_look_) return false;
    next_look_ = Clock::now() + kRunLookInterval;
    try {
      if (!jobs::have_runs_ended(spec_)) return false;
    } catch (const Error&) {  // the disk is away for a while
      return false;
    }
    if (!run_ended_) run_ended_ = Clock::now();
    return Clock::now() - *run_ended_ > kOutlivedLimit;
  }

  void read_signals(const Say& say) {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD || signal_ != 0) continue;
      signal_ = signal;
      say(signal == SIGUSR1 ? "the time limit is near; the ranks are asked to save"
                            : "the machines are taken; the ranks are asked to save");
    }
  }

  // To the ranks only, not to this program. Again after a while, because they may have started since; ranks
  // that have the signal already ignore a second one.
  void ask_to_save(const std::string& id, const Say& say) {
    next_request_ = Clock::now() + kRequestInterval;
    const CommandEnd end = run_command({"scancel", "--signal=TERM", id}, {.limit = std::chrono::seconds(20)});
    if (end.status != 0) say("scancel: " + printable(first_line(end.errors)));
  }

  const JobPaths paths_;
  const JobSpec& spec_;
  const int64_t attempt_;
  Descriptor signals_;
  pid_t process_ = -1;
  int signal_ = 0;
  bool is_fenced_ = false;
  bool has_outlived_run_ = false;
  std::optional<Clock::time_point> run_ended_;
  Clock::time_point next_look_{}, next_request_{};
};

// Empty if Slurm does not say.
std::string shown_job(const std::string& id) {
  const CommandEnd end =
      run_command({"scontrol", "show", "job", "--oneliner", id}, {.limit = std::chrono::seconds(20)});
  return end.status == 0 ? end.output : "";
}

std::string own_restarts() {
  const std::string count = environment_variable("SLURM_RESTART_COUNT");
  return count.empty() ? "0" : count;
}

bool was_cancelled(const JobPaths& paths, const std::string& id) {
  return jobs::is_marked_cancelled(paths) || is_being_cancelled(shown_job(id), own_restarts());
}

// A run that somebody asked to stop (lockstep stop) is over; one that a signal stopped made room. Slurm may
// send the signal to the ranks alone.
bool was_run_stopped(const JobSpec& spec, bool by_signal) {
  const auto found = jobs::state_of_runs(spec);
  if (!found) return by_signal;
  return found->state == record::RunState::stopped && !found->reason.ends_with("asked for it");
}

// Srun that loses a machine says so, and ends with status 0.
bool has_lost_node(const fs::path& diary) {
  return end_of_file(diary, kEndOfDiary).find("srun: error: Node failure on ") != std::string::npos;
}

AttemptEnd end_of(const JobSpec& spec, const Step& step, int status) {
  if (step.has_outlived_run()) return AttemptEnd::ended;
  const bool by_signal = step.signal() != 0;
  const bool is_run = !spec.run_folder.empty();
  if (is_run && status == 0 && was_run_stopped(spec, by_signal)) return AttemptEnd::stopped;
  const bool lost_node = has_lost_node(step.diary());
  if (status == 0 && !lost_node) return AttemptEnd::ended;
  const bool was_killed = lost_node || status == kLostStatus || status > launch::kSignalStatus;
  if (is_run && was_killed && jobs::have_runs_ended(spec)) return AttemptEnd::ended;
  if (!jobs::may_start_again(spec) || !(by_signal || was_killed)) return AttemptEnd::failed;
  return by_signal ? AttemptEnd::stopped : AttemptEnd::lost;
}

std::string reason_of(const AttemptResult& result, int signal) {
  switch (result.end) {
    case AttemptEnd::ended:
      return "";
    case AttemptEnd::stopped:
      return signal == SIGUSR1 ? "saved before the time limit" : "saved because the machines were taken";
    case AttemptEnd::lost:
      return "ranks were killed or lost (status " + std::to_string(result.status) + ")";
    case AttemptEnd::cancelled:
      return "";
    case AttemptEnd::fenced:
      return "a later attempt began";
    case AttemptEnd::failed:
      return result.status > launch::kSignalStatus
                 ? "the command was killed by signal " + std::to_string(result.status - launch::kSignalStatus)
                 : "the command ended with status " + std::to_string(result.status);
  }
  return "";
}

// Slurm could not start the ranks, which says nothing about them.
bool was_never_started(const fs::path& diary) {
  std::error_code none;
  return fs::file_size(diary, none) < kLongestRefusal &&
         read_file(diary, kLongestRefusal).find("Unable to create step") != std::string::npos;
}

// A rank that failed by itself would fail again. Srun ends the others for its sake, and tells their status.
void look_for_own_failure(const JobPaths& paths, AttemptResult& result) {
  const auto error = jobs::read_error(paths, result.attempt);
  if (!error || result.end != AttemptEnd::lost) return;
  for (const ErrorCode passing : {ErrorCode::cancelled, ErrorCode::communication, ErrorCode::timeout}) {
    if (error->code() == passing) return;
  }
  result.end = AttemptEnd::failed;
  result.status = exit_status(error->code());
}

// Runs the ranks, and fills in how they ended. Returns the signal that asked for the end.
int run_step(const JobPaths& paths, const JobSpec& spec, AttemptResult& result, const std::string& id,
             const Say& say) {
  wait_for_orphans(spec, say);
  Step step(spec, paths, result.attempt);
  result.status = step.wait(id, say);
  result.step = jobs::step_of(spec);
  result.end = step.is_fenced() ? AttemptEnd::fenced : end_of(spec, step, static_cast<int>(result.status));
  look_for_own_failure(paths, result);
  if (result.end == AttemptEnd::failed && was_never_started(paths.diary(result.attempt)))
    result.end = AttemptEnd::lost;
  return step.signal();
}

// Ranks that could not be started, or not be waited for, for a reason that this program knows.
int try_step(const JobPaths& paths, const JobSpec& spec, AttemptResult& result, const std::string& id,
             const Say& say) {
  try {
    return run_step(paths, spec, result, id, say);
  } catch (const Error& error) {
    result.end = AttemptEnd::failed;
    result.status = exit_status(error.code());
    result.reason = error.message();
    try {
      jobs::write_error(paths, result.attempt, error);
    } catch (const Error& of_disk) {
      say(of_disk.message());
    }
    return 0;
  }
}

// Slurm may have started the job again by itself, elsewhere, while this attempt went on on a machine that it
// had lost.
bool was_started_again(const std::string& id) {
  const std::string restarts = value_in_job(shown_job(id), "Restarts");
  return !restarts.empty() && restarts != own_restarts();
}

// Slurm ends this process when it takes the job back.
bool requeue(const std::string& id, const Say& say) {
  if (was_started_again(id)) {
    say("Slurm has started the job again");
    return true;
  }
  const CommandEnd end = run_command({"scontrol", "requeue", id});
  // It may end with the job, which is then taken back. Another end of this program could be taken for that of
  // the next start.
  if (end.status != 0 && end.status < launch::kSignalStatus) {
    say("scontrol requeue: " + printable(first_line(end.errors)));
    return false;
  }
  std::this_thread::sleep_for(kRequeueLimit);
  return true;
}

}  // namespace

int run_slurm_attempt(const fs::path& folder, const Say& say) {
  const sigset_t signals = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const JobPaths paths{folder};
  const JobSpec spec = jobs::read_spec(paths);
  const std::string id = own_id(), owner = own_job(paths, id);
  if (owner != id || jobs::read_result(paths)) {
    say(owner != id ? "job " + id + " is a second submission of job " + owner + " and does nothing"
                    : "the job is over");
    return 0;
  }
  if (jobs::is_marked_cancelled(paths)) {
    jobs::end_job(paths, AttemptEnd::cancelled, "");
    say("the job was cancelled");
    return 0;
  }
  AttemptResult result{.attempt = jobs::begin_attempt(paths),
                       .nodes = environment_variable("SLURM_JOB_NODELIST"),
                       .started = now_seconds()};
  jobs::sync_attempt(paths);
  jobs::write_file_quick(
      paths.started(result.attempt),
      to_json(jobs::Started{.runner = record::this_process(), .time = result.started}).dump() + "\n");
  say("attempt " + std::to_string(result.attempt) + " on " + result.nodes);
  const jobs::FetchedFiles files(spec);
  const int signal = try_step(paths, spec, result, id, say);
  if (result.end != AttemptEnd::ended && result.end != AttemptEnd::fenced && was_cancelled(paths, id))
    result.end = AttemptEnd::cancelled;
  if (result.reason.empty()) result.reason = reason_of(result, signal);
  if (const auto error = jobs::read_error(paths, result.attempt); error && result.end == AttemptEnd::failed)
    result.reason = error->message();
  bool goes_on = result.end == AttemptEnd::stopped || result.end == AttemptEnd::lost;
  if (goes_on && !jobs::is_worth_another(paths, spec, result.attempt, result.step)) {
    goes_on = false;
    result.end = AttemptEnd::failed;
    result.reason += "; it was started again without a step in between, and is not any more";
  }
  if (result.end != AttemptEnd::fenced) jobs::add_reason(files.copy(paths, result.attempt), result);
  result.ended = now_seconds();
  // Slurm may end this job meanwhile. The start that follows needs nothing of this attempt.
  const auto write = [&] { jobs::end_attempt(paths, result); };
  const bool is_written = goes_on
                              ? jobs::try_to_write(write)
                              : jobs::write_when_there_is_space(paths, result.attempt, {SIGTERM}, write) == 0;
  say("attempt " + std::to_string(result.attempt) + " " +
      enum_names(AttemptEnd{})[static_cast<size_t>(result.end)] +
      (result.reason.empty() ? "" : ": " + result.reason) +
      (result.step >= 0 ? ", after step " + with_commas(result.step) : ""));
  if (goes_on && jobs::is_wanted(paths) && requeue(id, say)) return 0;
  if (goes_on && jobs::is_marked_cancelled(paths))
    jobs::try_to_write([&] { jobs::end_job(paths, AttemptEnd::cancelled, ""); });
  return is_written && (result.end == AttemptEnd::ended || result.end == AttemptEnd::fenced)
             ? 0
             : static_cast<int>(std::max<int64_t>(1, result.status));
}

}  // namespace lockstep::cluster
