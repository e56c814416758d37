// Processes of an earlier attempt of a trial, whose own process was killed.
#pragma once

#include <string>

namespace lockstep::sweep {

/// "NAME=value", which only processes of one trial have in their environment.
std::string variable_of_trial(const std::string& folder);

/// Kills this user's processes that have the variable in their environment, and waits for their end, at most
/// a second. A trial's own process ends with the sweep's, but not those that it started.
void kill_remains(const std::string& variable);

}  // namespace lockstep::sweep
