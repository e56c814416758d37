#include "lockstep/sweep/internal/history.h"

#include <algorithm>

namespace lockstep::sweep {

void History::take(const LogLine& line) {
  if (line.kind == LogKind::begin) {
    begun[line.trial] = line.parameters;
    may_change.erase(line.trial);
  } else if (line.kind == LogKind::outcome) {
    const Segment segment{line.trial, line.until};
    early.erase(line.trial);  // it went on
    if (!known.contains(segment)) order.push_back(segment);
    known[segment] = line;
  } else if (line.kind == LogKind::lost) {
    losses[line.trial] += line.text == kProgramKilled ? 0 : 1;
  } else if (line.kind == LogKind::early) {
    early[line.trial] = line.step;
  } else if (line.kind == LogKind::restart) {
    for (const auto& [trial, words] : begun) may_change.insert(trial);
    begin_anew(line.trial);
  }
}

bool History::ended_early(const Trial& trial) const {
  const auto ended = early.find(trial.number);
  return ended != early.end() && (!ended->second || *ended->second == trial.step);
}

std::optional<Segment> History::first_of(const std::vector<Segment>& segments) const {
  for (const Segment& segment : order) {
    if (std::find(segments.begin(), segments.end(), segment) != segments.end()) return segment;
  }
  return std::nullopt;
}

std::optional<LogLine> History::line_after_early(const Segment& segment) const {
  const auto ended = early.find(segment.trial);
  if (ended == early.end() || !ended->second) return std::nullopt;
  const LogLine& line = known.at(segment);
  return *ended->second < outcome_of(line).step ? std::optional(line) : std::nullopt;
}

void History::begin_anew(int64_t trial) {
  std::erase_if(known, [&](const auto& one) { return one.first.trial == trial; });
  std::erase_if(order, [&](const Segment& one) { return one.trial == trial; });
  begun.erase(trial);
  early.erase(trial);
  losses.erase(trial);
}

}  // namespace lockstep::sweep
