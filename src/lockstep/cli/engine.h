// The commands that need LibTorch, as the program lockstep-engine runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/cli/program.h"

namespace lockstep::cli {

/// Their names, as in builtin_verbs().
std::vector<std::string> engine_command_names();

/// Runs them in this process.
///   variable  the environment, as getenv gives it
RunInEngine engine_commands(std::function<const char*(const char*)> variable);

}  // namespace lockstep::cli
