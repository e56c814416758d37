// The process of a trial: its words, its surroundings, and the folder that it starts from.
#pragma once

#include <string>

#include <sys/types.h>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

struct TrialStart {
  Segment segment{};
  Assignment parameters{};
  std::string lockstep{};  ///< the program, for trials that train
};

/// Starts it, or lets it go on from its own checkpoint. It ends with the thread that calls this. What an
/// earlier attempt of another program than train left is removed.
pid_t start_trial(const SweepPaths& paths, const SweepSpec& spec, const TrialStart& trial);

}  // namespace lockstep::sweep
