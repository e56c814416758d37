// How commands take a sweep where this one was typed.
#pragma once

#include <string>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// The folder as a word for a shell: "far:search" where the command came through a login node
/// (jobs::kShownAs).
std::string shown_sweep(const SweepPaths& paths);

}  // namespace lockstep::sweep
