// The name of the machine that a process runs on, for messages and locks.
#pragma once

#include <string>

namespace lockstep {

/// As gethostname gives it; "?" where it cannot.
std::string host_name();

}  // namespace lockstep
