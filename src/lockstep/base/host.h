// The name of the machine that a process runs on, for messages and locks.
#pragma once

#include <string>

namespace lockstep {

/// As gethostname returns it; "?" if it fails.
std::string host_name();

}  // namespace lockstep
