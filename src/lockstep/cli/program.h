// The program between argv and exit status.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/cli/console.h"

namespace lockstep::cli {

/// Finds the verb, runs it, and turns what goes wrong into text and an exit status. Nothing is thrown.
///   arguments  without the program's own name
///   variable   the environment, as getenv gives it
int run_program(const std::vector<std::string>& arguments, Console& console,
                const std::function<const char*(const char*)>& variable) noexcept;

}  // namespace lockstep::cli
