#pragma once

#include <string>

namespace lockstep::cluster {

/// A path as it is written where a program replaces %j and the like: Slurm in names of logs, ssh in options.
inline std::string doubled_percent(const std::string& path) {
  std::string text;
  for (const char letter : path) text += letter == '%' ? std::string("%%") : std::string(1, letter);
  return text;
}

}  // namespace lockstep::cluster
