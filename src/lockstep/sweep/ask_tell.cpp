#include "lockstep/sweep/ask_tell.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::sweep {

const std::string& Question::text(std::string_view name) const {
  for (const auto& [own, value] : parameters) {
    if (own == name) return value;
  }
  throw Error(ErrorCode::not_found,
              "trial " + std::to_string(trial) + " has no parameter " + quote(std::string(name)));
}

double Question::number(std::string_view name) const {
  const std::string& value = text(name);
  if (const auto number = parse_number<double>(value)) return *number;
  throw Error(ErrorCode::invalid_option,
              "parameter " + quote(name) + " is " + quote(value) + ", which is no number",
              "text(" + quote(name) + ") returns it as text");
}

AskTell::AskTell(const Space& space, const SearchOptions& options) : search_(space, options) {
  if (options.stop != StopRule::none && options.total_steps <= 0)
    throw Error(ErrorCode::invalid_option, "a stop rule needs the steps of a trial's full length",
                "set SearchOptions::total_steps");
}

std::optional<Question> AskTell::ask() {
  for (const Segment& segment : search_.under_way()) {
    if (std::find(asked_.begin(), asked_.end(), segment) != asked_.end()) continue;
    asked_.push_back(segment);
    const Trial& trial = search_.trials()[static_cast<size_t>(segment.trial)];
    return Question{segment.trial, segment.until > 0 ? segment.until : trial.total_steps,
                    parameters_of(trial)};
  }
  return std::nullopt;
}

void AskTell::tell(const Question& question, double value) {
  tell(question, Outcome{.state = segment_of(question).until > 0 ? TrialState::waiting : TrialState::ended,
                         .value = value,
                         .step = question.until});
}

void AskTell::tell(const Question& question, const Outcome& outcome) {
  const Segment segment = segment_of(question);
  const std::string trial = "trial " + std::to_string(question.trial);
  if (told_.contains(segment)) throw Error(ErrorCode::invalid_option, trial + " was told before");
  if (std::find(asked_.begin(), asked_.end(), segment) == asked_.end())
    throw Error(ErrorCode::invalid_option, trial + " was not asked for, or its result was told before");
  if (outcome.state == TrialState::running || outcome.state == TrialState::early)
    throw Error(
        ErrorCode::invalid_option,
        trial + " cannot be told as " + quote(enum_names(outcome.state)[static_cast<size_t>(outcome.state)]),
        "tell what became of it: ended, waiting, stopped or failed");
  if (search_.tells_in_any_order()) {
    search_.tell(segment, outcome);
    std::erase(asked_, segment);
    return;
  }
  told_.emplace(segment, outcome);
  tell_in_turn();
}

// The search calls the segment that ends a trial 0.
Segment AskTell::segment_of(const Question& question) const {
  const auto& trials = search_.trials();
  const auto trial = static_cast<size_t>(question.trial);
  const bool is_last = trial < trials.size() && question.until == trials[trial].total_steps;
  return {question.trial, is_last ? 0 : question.until};
}

void AskTell::tell_in_turn() {
  while (const auto next = search_.next()) {
    const auto told = told_.find(*next);
    if (told == told_.end()) return;
    search_.tell(*next, told->second);
    std::erase(asked_, *next);
    told_.erase(told);
  }
}

bool AskTell::is_over() { return !search_.next().has_value(); }

}  // namespace lockstep::sweep
