// The program between argv and exit status.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/console.h"

namespace lockstep::cli {

/// Finds the verb, runs it, and turns what goes wrong into text and an exit status. Nothing is thrown.
///   arguments  without the program's own name
int run_program(const std::vector<std::string>& arguments, Console& console) noexcept;

}  // namespace lockstep::cli
