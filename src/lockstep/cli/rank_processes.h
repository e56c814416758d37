// Starts the processes that are the ranks of one program on this machine, and ends them together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <csignal>

#include <sys/types.h>

#include "lockstep/cli/console.h"

namespace lockstep::cli {

/// How the first failed rank ended.
struct RankFailure {
  int64_t rank = 0;
  std::string how;         ///< "was killed by signal 9 (Killed)"
  std::string last_words;  ///< the last lines that it wrote to standard error
  int status = 1;          ///< exit status, as in a shell
  bool was_lost = false;   ///< it ended because of another rank, whose failure is not known
};

struct RanksEnd {
  std::vector<RankFailure> failures;  ///< at most one, the first
  int signal = 0;                     ///< the signal that ended the run: SIGINT, SIGTERM or SIGHUP; 0: none
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

/// What every rank gets.
struct RankProgram {
  std::vector<std::string> words;  ///< the program and its arguments; PATH is searched for the program
  int64_t ranks = 1;
  std::string address;  ///< address of the rendezvous
  uint16_t port = 0;
  std::string secret;  ///< LOCKSTEP_SECRET
  std::filesystem::path
      tee{};  ///< folder for a log of each rank's output: rank-0.log, rank-1.log, ...; empty: no logs
};

/// Runs the ranks until all have ended.
/// Output: without `tee`, rank 0 writes to this process's standard output. All other output is forwarded line
/// by line, with a prefix such as "[rank 2] " for ranks other than 0. Throws io when a log file of `tee`
/// cannot be created; a log file that cannot be written later is reported once and closed. If standard output
/// cannot be written, the ranks continue, and the exception of Console::print is thrown at the end unless a
/// rank failed.
/// Failure: when one rank fails, the others have one second to end. They then get SIGTERM, and two seconds
/// later SIGKILL. When this process dies, its ranks die too.
/// Signals: SIGINT, SIGTERM and SIGHUP are forwarded unless they are ignored. A second one kills all ranks; a
/// second SIGHUP does not (ignore_hangups).
/// One call at a time, while a LauncherSignals exists that was made before all other threads.
RanksEnd run_ranks(const RankProgram& program, Console& console);

}  // namespace lockstep::cli
