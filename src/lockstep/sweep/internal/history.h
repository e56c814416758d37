// What a sweep's log says of its trials, and what has happened since: all that is known when a sweep goes on.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

struct History {
  std::map<Segment, Outcome> known{};
  std::vector<Segment> order{};                         ///< of known, as they came
  std::map<int64_t, std::vector<std::string>> begun{};  ///< trials with their parameters, NAME=VALUE
  std::set<int64_t> early{};                            ///< trials that the stop rule has ended
  std::map<int64_t, int64_t> losses{};  ///< how often a trial was lost since this program began
  bool has_restarts = false;

  void take(const LogLine& line);
  void add(const Segment& segment, const Outcome& outcome);
  /// All about a trial.
  void forget(int64_t trial);
};

}  // namespace lockstep::sweep
