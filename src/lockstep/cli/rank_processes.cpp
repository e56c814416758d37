#include "lockstep/cli/rank_processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/device/inventory.h"
#include "lockstep/launch/group_watch.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kOwnEnd{
    1000};  // in which the other ranks can report and exit without a signal
constexpr std::chrono::milliseconds kPoliteEnd{3000};  // from SIGTERM to SIGKILL
constexpr std::chrono::seconds kLongestSilence{30};
constexpr size_t kLastLines = 5;
constexpr const char* kThreadsVariable = "OMP_NUM_THREADS";
constexpr int kLostStatus = 113;  // of a rank of ours that another one's failure ended: not the one to name

sigset_t watched_signals() {
  sigset_t signals = launch::stop_signal_set();
  ::sigaddset(&signals, SIGCHLD);
  return signals;
}

/// A file that receives a rank's output; without a folder it does nothing.
class RankLog {
 public:
  RankLog(const RankProgram& program, int64_t rank) {
    if (program.tee.empty()) return;
    path_ = (std::filesystem::path(program.tee) / ("rank-" + std::to_string(rank) + ".log")).string();
    file_.reset(std::fopen(path_.c_str(), program.restarts > 0 ? "ae" : "we"));
    if (file_ == nullptr) throw errno_error(errno, "write", path_);
  }
  bool keeps() const { return file_ != nullptr; }
  void add(const std::string& line, const RankStarter& starter) {
    if (file_ == nullptr || (std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                             std::fflush(file_.get()) == 0))
      return;
    starter.note("lockstep: " + errno_error(errno, "write", path_).message() +
                 "; its rank continues without it\n");
    file_.reset();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Forwards whole lines from a pipe.
class LinePipe {
 public:
  LinePipe(std::string prefix, bool to_output, std::shared_ptr<RankLog> log)
      : prefix_(std::move(prefix)), to_output_(to_output), log_(std::move(log)) {}
  int reading_end() const { return pipe_.reading.get(); }
  int writing_end() const { return pipe_.writing.get(); }
  void close_writing_end() { pipe_.writing = {}; }

  /// Forwards the available lines; false at the end of the stream.
  bool pass_on(const RankStarter& starter) {
    const auto take_here = [&](std::string_view text) { take(text, starter); };
    if (launch::read_available(pipe_.reading.get(), take_here)) return true;
    end_line(starter);
    pipe_.reading = {};
    return false;
  }
  std::string last_lines() const { return join({last_.begin(), last_.end()}, "\n"); }
  /// Throws the failure that stopped forwarding to standard output, if there was one.
  void check_output() const {
    if (output_failure_) std::rethrow_exception(output_failure_);
  }

 private:
  void take(std::string_view text, const RankStarter& starter) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      open_line_ += text.substr(0, end);
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + 1);
      show(starter);
    }
  }
  void end_line(const RankStarter& starter) {
    if (!open_line_.empty()) show(starter);
  }
  void show(const RankStarter& starter) {
    last_.push_back(open_line_);
    if (last_.size() > kLastLines) last_.pop_front();
    const std::string own = std::exchange(open_line_, {}) + "\n", line = prefix_ + own;
    log_->add(own, starter);
    if (!to_output_) return starter.note(line);
    if (output_failure_) return;
    try {
      starter.print(line);
    } catch (...) {
      output_failure_ = std::current_exception();  // the run continues without its output
    }
  }

  launch::Pipe pipe_ = launch::make_pipe();
  std::string prefix_;
  bool to_output_;
  std::shared_ptr<RankLog> log_;
  std::string open_line_;
  std::deque<std::string> last_;
  std::exception_ptr output_failure_;
};

struct RankProcess {
  int64_t rank = 0;
  pid_t process = -1;  // -1 once it has ended
  LinePipe errors;
  std::optional<LinePipe> output;  // for rank 0 only with `tee`
};

// By the user: with --pass, or in the environment of this process.
bool is_given(const std::string& name, const RankProgram& program) {
  return !environment_variable(name.c_str()).empty() ||
         std::any_of(program.environment.begin(), program.environment.end(),
                     [&](const std::string& variable) { return variable.starts_with(name + "="); });
}

// torchrun's variables, so that programs written for torchrun work here, and our own.
std::vector<std::string> environment_of(const RankProgram& program, int64_t rank) {
  const std::string world = std::to_string(program.world), own = std::to_string(rank);
  std::vector<std::string> variables{"RANK=" + own,
                                     "LOCAL_RANK=" + std::to_string(rank - program.first),
                                     "ROLE_RANK=" + own,
                                     "GROUP_RANK=" + std::to_string(program.machine),
                                     "WORLD_SIZE=" + world,
                                     "LOCAL_WORLD_SIZE=" + std::to_string(program.ranks),
                                     "ROLE_WORLD_SIZE=" + world,
                                     "ROLE_NAME=default",
                                     "GROUP_WORLD_SIZE=" + std::to_string(program.machines),
                                     "MASTER_ADDR=" + program.address,
                                     "MASTER_PORT=" + std::to_string(program.port),
                                     "TORCHELASTIC_RESTART_COUNT=" + std::to_string(program.restarts),
                                     "TORCHELASTIC_MAX_RESTARTS=" + std::to_string(program.max_restarts),
                                     "TORCHELASTIC_RUN_ID=lockstep-" + std::to_string(::getpid()),
                                     "TORCHELASTIC_USE_AGENT_STORE=True",
                                     "LOCKSTEP_SECRET=" + program.secret,
                                     "LOCKSTEP_LOST_STATUS=" + std::to_string(kLostStatus)};
  if (!is_given(kThreadsVariable, program))
    variables.push_back(std::string(kThreadsVariable) + "=" +
                        std::to_string(std::max<int64_t>(1, device::inspect().cores / program.ranks)));
  variables.insert(variables.end(), program.environment.begin(), program.environment.end());
  return variables;
}

// far: its starter is on another machine.
RankProcess start_rank(const RankProgram& program, int64_t rank, bool far, const launch::Gate& gate) {
  const std::string prefix = rank == 0 ? "" : "[rank " + std::to_string(rank) + "] ";
  const auto log = std::make_shared<RankLog>(program, rank);
  RankProcess started{.rank = rank, .errors = LinePipe(prefix, false, log), .output = {}};
  if (rank != 0 || log->keeps() || far) started.output.emplace(prefix, true, log);
  started.process = launch::start_process(
      {.program = program.words.front(),
       .words = program.words,
       .environment = environment_of(program, rank),
       .input = rank != 0 || far || ::isatty(STDIN_FILENO) == 1 ? launch::kNull : launch::kInherited,
       .output = started.output ? started.output->writing_end() : launch::kInherited,
       .errors = started.errors.writing_end(),
       .gate = gate.descriptor()});
  started.errors.close_writing_end();
  if (started.output) started.output->close_writing_end();
  return started;
}

class Ranks {
 public:
  Ranks(const RankProgram& program, const RankStarter& starter) : starter_(starter), orders_(starter.orders) {
    const sigset_t signals = watched_signals();
    signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) throw errno_error(errno, "watch", "signals");
    const launch::Gate gate;
    for (int64_t rank = 0; rank < program.ranks; ++rank)
      ranks_.push_back(start_rank(program, program.first + rank, starter.orders >= 0, gate));
    std::vector<pid_t> processes;
    for (const RankProcess& rank : ranks_) processes.push_back(rank.process);
    watch_.emplace(std::move(processes));
    gate.open(ranks_.size());
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    for (const RankProcess& rank : ranks_) {
      if (rank.process > 0) launch::kill_group(rank.process);
    }
    ::close(signals_);
  }

  RanksEnd run() {
    while (wait_for_something()) {
      read_signals();
      read_orders();
      reap();
      press();
    }
    for (const RankProcess& rank : ranks_) {
      if (rank.output && end_.failures.empty() && end_.signal == 0) rank.output->check_output();
    }
    return std::move(end_);
  }

 private:
  // False when all ranks have ended and all their output has been forwarded.
  bool wait_for_something() {
    // poll takes a negative descriptor for none.
    std::vector<pollfd> waits{{signals_, POLLIN, 0}, {orders_, POLLIN, 0}};
    std::vector<LinePipe*> pipes;
    for (RankProcess& rank : ranks_) {
      for (LinePipe* pipe : {&rank.errors, rank.output ? &*rank.output : nullptr}) {
        if (pipe == nullptr || pipe->reading_end() < 0) continue;
        waits.push_back({pipe->reading_end(), POLLIN, 0});
        pipes.push_back(pipe);
      }
    }
    if (living() == 0 && (pipes.empty() || Clock::now() >= all_ended_ + kOwnEnd))
      return false;  // a grandchild may keep a pipe open
    ::poll(waits.data(), waits.size(), deadline_ || living() == 0 ? 50 : orders_ >= 0 ? 1000 : -1);
    for (size_t i = 0; i < pipes.size(); ++i) {
      if (waits[i + 2].revents != 0) pipes[i]->pass_on(starter_);
    }
    return true;
  }

  size_t living() const {
    size_t count = 0;
    for (const RankProcess& rank : ranks_) count += rank.process > 0;
    return count;
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD || (signal == SIGHUP && end_.signal != 0)) continue;
      launch::ignore_hangups();
      pass_signal(signal);
    }
  }

  void pass_signal(int signal) {
    if (end_.signal != 0) {
      if (Clock::now() >= first_signal_ + launch::kEcho) send(SIGKILL);
      return;
    }
    first_signal_ = Clock::now();
    end_.signal = signal;
    send(signal);
  }

  // Whoever asked for the ranks is gone when nothing comes any more.
  void read_orders() {
    if (orders_ < 0) return;
    const bool is_open = launch::read_available(orders_, [&](std::string_view bytes) {
      last_order_ = Clock::now();
      for (const char byte : bytes) {
        if (byte != 0) pass_signal(byte);
      }
    });
    if (is_open && Clock::now() < last_order_ + kLongestSilence) return;
    orders_ = -1;
    end_.signal == 0 ? pass_signal(SIGTERM) : send(SIGKILL);
    if (!deadline_) deadline_ = Clock::now();
    asked_ = true;
  }

  void reap() {
    for (RankProcess& rank : ranks_) {
      const auto end = rank.process > 0 ? launch::try_wait_for_end(rank.process) : std::nullopt;
      if (!end) continue;
      launch::signal_group(rank.process, SIGKILL);  // processes that it started and left behind
      const pid_t process = std::exchange(rank.process, -1);
      watch_->forget(process);
      if (end->status.value_or(0) != 0) note_failure(rank, process, *end->status);
      if (living() == 0) all_ended_ = Clock::now();
    }
  }

  void note_failure(RankProcess& rank, pid_t process, int status) {
    if (end_.signal != 0) return;
    if (!end_.failures.empty() && (!end_.failures.front().was_lost || asked_)) return;
    end_.failures.clear();
    rank.errors.pass_on(starter_);
    const bool was_lost = WIFEXITED(status) && WEXITSTATUS(status) == kLostStatus;
    const int shown = was_lost ? W_EXITCODE(1, 0) : status;
    end_.failures.push_back(
        {.rank = rank.rank,
         .host = host_name(),
         .how = "(process " + std::to_string(process) + ") " + launch::text_of_status(shown),
         .last_words = rank.errors.last_lines(),
         .status = launch::exit_status(shown),
         .was_killed = WIFSIGNALED(shown),
         .was_lost = was_lost});
    if (!deadline_) deadline_ = Clock::now();
  }

  // Asks the remaining ranks to end after a failure, then kills them.
  void press() {
    if (!deadline_) return;
    const auto passed = Clock::now() - *deadline_;
    if (passed >= kPoliteEnd) send(SIGKILL);
    if (passed >= kOwnEnd && !asked_) send(SIGTERM);
    asked_ = asked_ || passed >= kOwnEnd;
  }

  void send(int signal) const {
    for (const RankProcess& rank : ranks_) {
      if (rank.process > 0) launch::signal_group(rank.process, signal);
    }
  }

  const RankStarter& starter_;
  int signals_ = -1;
  std::vector<RankProcess> ranks_;
  std::optional<launch::GroupWatch> watch_;
  RanksEnd end_;
  std::optional<Clock::time_point> deadline_;  // since the first failure
  Clock::time_point all_ended_, first_signal_;
  bool asked_ = false;
  int orders_;
  Clock::time_point last_order_ = Clock::now();
};

}  // namespace

LauncherSignals::LauncherSignals() {
  const sigset_t signals = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

LauncherSignals::~LauncherSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

RanksEnd run_ranks(const RankProgram& program, const RankStarter& starter) {
  return Ranks(program, starter).run();
}

}  // namespace lockstep::cli
