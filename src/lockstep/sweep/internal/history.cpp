#include "lockstep/sweep/internal/history.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::sweep {

void History::take(const LogLine& line) {
  if (line.kind == LogKind::begin) {
    begun[line.trial] = line.parameters;
    may_change.erase(line.trial);
    printed.erase(line.trial);
  } else if (line.kind == LogKind::outcome) {
    const Segment segment{line.trial, line.until};
    early.erase(line.trial);  // it went on
    if (!known.contains(segment)) untold.push_back(segment);
    known[segment] = line;
  } else if (line.kind == LogKind::lost) {
    take_loss(line);
  } else if (line.kind == LogKind::early) {
    early[line.trial] = line.step;
  } else if (line.kind == LogKind::restart) {
    for (const auto& [trial, words] : begun) may_change.insert(trial);
    begin_anew(line.trial);
  }
}

void History::take_loss(const LogLine& line) {
  if (line.value) printed[line.trial] = *line.value;
  if (line.text != kProgramKilled) {
    ++losses[line.trial];
    return;
  }
  Kills& killed = kills[line.trial];
  const int64_t step = line.step.value_or(0);
  killed.count = step > killed.step ? 1 : killed.count + 1;
  killed.step = std::max(killed.step, step);
}

int64_t History::losses_for(const std::string& why, int64_t trial) const {
  if (why == kProgramKilled) {
    const auto killed = kills.find(trial);
    return killed == kills.end() ? 0 : killed->second.count;
  }
  const auto lost = losses.find(trial);
  return lost == losses.end() ? 0 : lost->second;
}

bool History::ended_early(const Trial& trial) const {
  for (auto one = known.lower_bound({.trial = trial.number});
       one != known.end() && one->first.trial == trial.number; ++one) {
    if (one->second.state == TrialState::stopped && outcome_of(one->second).step == trial.step) return true;
  }
  const auto ended = early.find(trial.number);
  return ended != early.end() && (!ended->second || *ended->second == trial.step);
}

void History::check_may_change(int64_t trial, const std::vector<std::string>& words) const {
  if (may_change.contains(trial)) return;
  throw Error(ErrorCode::invalid_option,
              "trial " + std::to_string(trial) + " was made with " + join(begun.at(trial), " ") +
                  ", but this search gives " + join(words, " "),
              "go on with the program and on the kind of processor that began the sweep");
}

std::optional<Segment> History::first_untold(const std::function<bool(const Segment&)>& is_wanted) const {
  const auto found = std::find_if(untold.begin(), untold.end(), is_wanted);
  return found == untold.end() ? std::nullopt : std::optional(*found);
}

// Most often it is one of the first.
void History::tell(const Segment& segment) {
  const auto found = std::find(untold.begin(), untold.end(), segment);
  if (found != untold.end()) untold.erase(found);
}

std::optional<LogLine> History::line_after_early(const Segment& segment) const {
  const auto ended = early.find(segment.trial);
  if (ended == early.end() || !ended->second) return std::nullopt;
  const LogLine& line = known.at(segment);
  return *ended->second < outcome_of(line).step ? std::optional(line) : std::nullopt;
}

void History::begin_anew(int64_t trial) {
  known.erase(known.lower_bound({.trial = trial}), known.lower_bound({.trial = trial + 1}));
  std::erase_if(untold, [&](const Segment& one) { return one.trial == trial; });
  begun.erase(trial);
  early.erase(trial);
  losses.erase(trial);
  kills.erase(trial);
  printed.erase(trial);
}

}  // namespace lockstep::sweep
