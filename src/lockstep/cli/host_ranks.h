// Ranks of one program on several hosts, over the system's ssh.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cli/hosts_file.h"
#include "lockstep/cli/rank_processes.h"

namespace lockstep::cli {

struct HostProgram {
  std::vector<Host> hosts;
  int64_t ranks = 0;         ///< on all hosts; 0: one for each slot
  std::string lockstep{};    ///< the program lockstep on the hosts
  std::string run_folder{};  ///< of a training, which goes on if it has begun; empty: none
  RankProgram program{};     ///< for all ranks
};

/// Runs the ranks until all have ended, on agents (host-ranks) that ssh starts: as run_ranks, but all output
/// passes through lines. The hosts' keys must be known, and nobody is asked for a password. What the agents
/// are told, variables and secret with it, is on no command line. A host whose connection is lost has a
/// failure of rank -1. Of a program that was started before (restarts > 0) the hosts that cannot be reached
/// are left out, and noted; there are fewer ranks then if the others have no free slots. Throws cluster when
/// a host cannot be reached, invalid_option for too few slots.
RanksEnd run_on_hosts(const HostProgram& asked, Console& console);

}  // namespace lockstep::cli
