// Starts the processes that are the ranks of one program on this machine, and ends them together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <csignal>

#include <sys/types.h>

#include "lockstep/base/describe.h"

namespace lockstep::cli {

/// How the first failed rank ended.
struct RankFailure {
  int64_t rank = 0;
  std::string host{};        ///< its machine
  std::string how{};         ///< "was killed by signal 9 (Killed)"
  std::string last_words{};  ///< the last lines that it wrote to standard error
  int64_t status = 1;        ///< exit status, as in a shell
  bool was_killed = false;   ///< by a signal, or with its machine
  bool was_lost = false;     ///< it ended because of another rank, whose failure is not known

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("rank", self.rank, "");
    field("host", self.host, "");
    field("how", self.how, "");
    field("last_words", self.last_words, "");
    field("status", self.status, "");
    field("was_killed", self.was_killed, "");
    field("was_lost", self.was_lost, "");
  };
};

struct RanksEnd {
  std::vector<RankFailure> failures{};  ///< at most one, the first
  int64_t signal = 0;                   ///< the signal that ended the run: SIGINT, SIGTERM or SIGHUP; 0: none
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("failures", self.failures, "");
    field("signal", self.signal, "");
  };
};

/// While it exists, new threads do not receive the signals that a launcher waits for.
class LauncherSignals {
 public:
  LauncherSignals();
  ~LauncherSignals();
  LauncherSignals(const LauncherSignals&) = delete;
  LauncherSignals& operator=(const LauncherSignals&) = delete;

 private:
  sigset_t before_{};
};

/// Who asks for ranks.
struct RankStarter {
  /// Take whole lines of the ranks' standard output and standard error.
  std::function<void(std::string_view)> print;
  std::function<void(std::string_view)> note;
  /// Descriptor towards a starter on another machine, or -1; it does not block. A byte that comes is a signal
  /// for the ranks, or 0: a sign of life. The ranks end when none comes for half a minute, and at its end.
  int orders = -1;
};

/// What every rank gets.
struct RankProgram {
  std::vector<std::string> words{};  ///< the program and its arguments; PATH is searched for the program
  int64_t ranks = 1;                 ///< on this machine
  int64_t first = 0;                 ///< the number of the first one
  int64_t world = 1;                 ///< on all machines
  int64_t machine = 0;
  int64_t machines = 1;
  int64_t restarts = 0;  ///< starts of all ranks before this one
  int64_t max_restarts = 0;
  std::vector<std::string> environment{};  ///< "NAME=value", further variables
  std::string address{};                   ///< address of the rendezvous
  int64_t port = 0;
  std::string secret{};  ///< LOCKSTEP_SECRET
  /// Folder for a log of each rank's output: rank-0.log, ... A restart adds to the logs. Empty: no logs.
  std::string tee{};

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("words", self.words, "");
    field("ranks", self.ranks, "");
    field("first", self.first, "");
    field("world", self.world, "");
    field("machine", self.machine, "");
    field("machines", self.machines, "");
    field("restarts", self.restarts, "");
    field("max_restarts", self.max_restarts, "");
    field("environment", self.environment, "");
    field("address", self.address, "");
    field("port", self.port, "");
    field("secret", self.secret, "");
    field("tee", self.tee, "");
  };
};

/// Runs the ranks until all have ended.
/// Output: without `tee` and `orders`, rank 0 writes to this process's standard output. All other output is
/// forwarded line by line, with a prefix such as "[rank 2] " for ranks other than 0. Throws io when a log
/// file of `tee` cannot be created; a log file that cannot be written later is reported once and closed. If
/// standard output cannot be written, the ranks continue, and the exception of `print` is thrown at the end
/// unless a rank failed. Failure: when one rank fails, the others have one second to end. They then get
/// SIGTERM, and two seconds later SIGKILL. When this process dies, its ranks die too, with all that stayed in
/// their process groups. Signals: SIGINT, SIGTERM and SIGHUP are forwarded unless they are ignored. A second
/// one kills all ranks, unless it comes within launch::kEcho; a second SIGHUP does not
/// (launch::ignore_hangups). One call at a time, while a LauncherSignals exists that was made before all
/// other threads.
RanksEnd run_ranks(const RankProgram& program, const RankStarter& starter);

}  // namespace lockstep::cli
