// Commands of the program `lockstep`, for programs of users: what is behind a login node, and machines of a
// cloud, are its part.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// Runs `lockstep WORDS` (the one beside this program, else that of PATH) and returns what it printed. Throws
/// cluster with what it said if it fails, not_found without it, and timeout.
std::string run_lockstep(const std::vector<std::string>& words,
                         std::chrono::seconds limit = std::chrono::seconds(600));

}  // namespace lockstep::cluster
