// The environment that this process was started with.
#pragma once

#include <cstdlib>
#include <string>

namespace lockstep {

/// The value of an environment variable; empty if there is none.
inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace lockstep
