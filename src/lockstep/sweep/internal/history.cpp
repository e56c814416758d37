#include "lockstep/sweep/internal/history.h"

namespace lockstep::sweep {

void History::take(const LogLine& line) {
  if (line.kind == LogKind::begin) {
    begun[line.trial] = line.parameters;
  } else if (line.kind == LogKind::outcome) {
    add({line.trial, line.until}, outcome_of(line));
  } else if (line.kind == LogKind::early) {
    early.insert(line.trial);
  } else if (line.kind == LogKind::restart) {
    forget(line.trial);
    has_restarts = true;
  }
}

void History::add(const Segment& segment, const Outcome& outcome) {
  if (!known.contains(segment)) order.push_back(segment);
  known[segment] = outcome;
}

void History::forget(int64_t trial) {
  std::erase_if(known, [&](const auto& one) { return one.first.trial == trial; });
  std::erase_if(order, [&](const Segment& one) { return one.trial == trial; });
  begun.erase(trial);
  early.erase(trial);
  losses.erase(trial);
}

}  // namespace lockstep::sweep
