// The program between argv and exit status.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// Runs a command that needs LibTorch. Gives the exit status.
using RunInEngine = std::function<int(const Verb& verb, Call call, Console& console)>;

/// Finds the command, runs it, and turns an exception into text and an exit status. Throws nothing.
///   arguments  without the program's own name
int run_program(const std::vector<std::string>& arguments, Console& console,
                const RunInEngine& engine) noexcept;

/// The body of main: prepares the process's descriptors and signals, then calls run_program.
int run_main(int argc, char** argv, const RunInEngine& engine);

}  // namespace lockstep::cli
