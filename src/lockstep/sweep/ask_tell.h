// A search for a custom loop: ask for a trial, train it in any way, tell its result.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/sweep/search.h"

namespace lockstep::sweep {

/// What is to be trained.
struct Question {
  int64_t trial = 0;
  int64_t until = 0;  ///< step up to which it is trained, counted from its beginning; 0: without a stop rule
  Assignment parameters{};

  /// A parameter as text. Throws not_found if the trial has none of this name.
  const std::string& text(std::string_view name) const;
  /// The same as a number. Throws invalid_option for a choice that is none.
  double number(std::string_view name) const;
};

/// Results may be told in any order. The search learns of them in the order of the trials, so it asks for the
/// same trials however many are trained at the same time (SearchOptions::lag). One thread.
///   while (auto question = search.ask()) search.tell(*question, loss_at(question->number("rate")));
class AskTell {
 public:
  /// Throws invalid_option, also for a stop rule without SearchOptions::total_steps.
  AskTell(const Space& space, const SearchOptions& options);

  /// What to train next; each question is asked once. Nothing if results must be told first, or if the search
  /// is over.
  std::optional<Question> ask();
  /// Throws invalid_option for a question that was not asked or was answered before, and for a state that is
  /// no outcome; nothing has changed then.
  void tell(const Question& question, const Outcome& outcome);
  /// The trial was trained as far as was asked. Before total_steps it is paused then, and may be asked for
  /// again.
  void tell(const Question& question, double value);

  bool is_over();
  const std::vector<Trial>& trials() const { return search_.trials(); }
  const Trial* best() const { return search_.best(); }
  Assignment parameters_of(const Trial& trial) const { return search_.space().assignment(trial.point); }

 private:
  Segment segment_of(const Question& question) const;
  void tell_in_turn();

  Search search_;
  std::vector<Segment> asked_;
  std::map<Segment, Outcome> told_;
};

}  // namespace lockstep::sweep
