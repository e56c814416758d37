// Processes that are the ranks of one program on this machine: started together, and ended together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <csignal>

#include <sys/types.h>

#include "lockstep/cli/console.h"

namespace lockstep::cli {

/// How the first rank that failed did so.
struct RankFailure {
  int64_t rank = 0;
  std::string how;         ///< "was killed by signal 9 (Killed)"
  std::string last_words;  ///< its last lines on standard error
  int status = 1;          ///< as a shell would report it
  bool was_lost = false;   ///< it ended because of another one, which is not known to have failed
};

struct RanksEnd {
  std::vector<RankFailure> failures;  ///< the first, or none
  int signal = 0;                     ///< that ended the run from outside: SIGINT, SIGTERM or SIGHUP
};

/// Keeps the signals that a launcher waits for from threads that are made while it lives.
class LauncherSignals {
 public:
  LauncherSignals();
  ~LauncherSignals();
  LauncherSignals(const LauncherSignals&) = delete;
  LauncherSignals& operator=(const LauncherSignals&) = delete;

 private:
  sigset_t before_{};
};

/// What all ranks are told.
struct RankProgram {
  std::vector<std::string> words;  ///< the program and its arguments; the program is looked for in PATH
  int64_t ranks = 1;
  std::string address;             ///< where they meet
  uint16_t port = 0;
  std::string secret;              ///< LOCKSTEP_SECRET
  std::filesystem::path tee{};     ///< a folder for what each rank writes, in rank-0.log and so on; empty: none
};

/// Runs the ranks to the end. Standard output of rank 0 is this process's own, without `tee`; what else they write is passed on line by line, with "[rank 2] "
/// before the lines of ranks but 0. Throws io where a file of `tee` cannot be made; one that cannot be written later is named once and ended. Standard
/// output that cannot be written ends nothing either: what Console::print threw is thrown at the end, unless a rank failed. When one fails, the
/// others have a second to end by themselves, two more after SIGTERM, and are then killed. SIGINT, SIGTERM and SIGHUP are passed on where they are not ignored;
/// a second one kills all, but for SIGHUP (ignore_hangups). When this process dies, its ranks do. One call at a time, while a LauncherSignals lives that is older
/// than all other threads.
RanksEnd run_ranks(const RankProgram& program, Console& console);

}  // namespace lockstep::cli
