// What a sweep's log says of its trials, and what has happened since: all that is known when a sweep goes on.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/sweep/sweep_log.h"

namespace lockstep::sweep {

/// Why a trial was lost with the program that trained it, in the log. Most often that was not the trial's
/// doing: what a trial does ends the process that trains it. But a scheduler may kill a whole job for a trial
/// that takes too much memory, again and again at the same step.
inline constexpr const char* kProgramKilled = "the program that trained it was killed";

/// A trial that is lost with its program more often than this at one step fails: that is no chance.
inline constexpr int64_t kMostKills = 10;

/// How often a trial was lost with its program since it was last further than at an earlier such loss.
struct Kills {
  int64_t count = 0;
  int64_t step = 0;  ///< the furthest
};

struct History {
  std::map<Segment, LogLine> known{};                   ///< outcomes, as they are in the log
  std::deque<Segment> untold{};                         ///< those that the search does not know, as they came
  std::map<int64_t, std::vector<std::string>> begun{};  ///< trials with their parameters, NAME=VALUE
  /// Trials that the stop rule has ended, and after which step; nothing: the log does not say it.
  std::map<int64_t, std::optional<int64_t>> early{};
  std::map<int64_t, int64_t> losses{};  ///< how often a trial was lost by its own doing
  std::map<int64_t, Kills> kills{};     ///< with the program that trained it
  /// What the newest attempt of another program than train had printed when it was lost.
  std::map<int64_t, double> printed{};
  /// Trials that had begun when one was restarted: its new result may give them other parameters.
  std::set<int64_t> may_change{};

  /// Each lost line once; another one may come again.
  void take(const LogLine& line);
  /// How often a trial was lost for this reason, or for others that count with it.
  int64_t losses_for(const std::string& why, int64_t trial) const;
  /// Whether the log says that the stop rule, or a person, has ended the trial where it is.
  bool ended_early(const Trial& trial) const;
  /// For a trial that has begun with other parameters than these. Throws invalid_option if no restart of a
  /// trial explains it.
  void check_may_change(int64_t trial, const std::vector<std::string>& words) const;
  /// The first of the untold segments for which `is_wanted` is true.
  std::optional<Segment> first_untold(const std::function<bool(const Segment&)>& is_wanted) const;
  /// The search knows its outcome.
  void tell(const Segment& segment);
  /// The line of an outcome of a trial that the log says ended early, and before that: with more trials it
  /// has gone on after all.
  std::optional<LogLine> line_after_early(const Segment& segment) const;
  /// Forgets all about a trial, which was restarted.
  void begin_anew(int64_t trial);

 private:
  void take_loss(const LogLine& line);
};

}  // namespace lockstep::sweep
