// The name of the machine that a process runs on, for messages and locks.
#pragma once

#include <string>

namespace lockstep {

/// As gethostname returns it; "?" if it fails.
std::string host_name();

/// The same with its domain, as the name service knows it; empty if it knows none. May wait for a name
/// server.
std::string full_host_name();

}  // namespace lockstep
