// The command of a trial: its words, its surroundings, and the folder that it starts from.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

struct TrialStart {
  Segment segment{};
  Assignment parameters{};
  std::string lockstep{};  ///< the program, for trials that train
  int64_t workers = 1;
};

/// The words of the command that trains it, or lets it go on from its own checkpoint. Prepares its folder:
/// what an earlier attempt of another program than train left is removed.
std::vector<std::string> prepare_trial(const SweepPaths& paths, const SweepSpec& spec,
                                       const TrialStart& trial);

/// Starts the command as a process, which ends with the thread that calls this.
pid_t start_trial(const SweepPaths& paths, const SweepSpec& spec, const TrialStart& trial);

}  // namespace lockstep::sweep
