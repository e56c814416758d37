// A search over any task, in a program: its trials are calls of a pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/sweep/ask_tell.h"

namespace lockstep::sweep {

/// Options of run.
struct RunOptions {
  SearchOptions search{};
  std::string metric{};  ///< the number of the task's result that is searched for; empty: the first one
  int64_t workers = 1;   ///< of each trial; as many trials go on at the same time as the pool has room for
  int64_t retries = 3;   ///< how often a trial starts again whose process was lost
  std::function<void(const Trial&)>
      report{};  ///< called when a trial has ended, by the thread that called run
};

/// What became of all trials, in their order.
template <class Output>
struct RunResult {
  Space space{};
  std::vector<Trial> trials{};
  /// What the task has returned, also where its metric is not finite; nothing where it threw an error.
  std::vector<std::optional<Output>> results{};
  std::optional<int64_t> best{};  ///< a trial; nothing if all have failed
  Assignment parameters_of(int64_t trial) const {
    return space.assignment(trials.at(static_cast<size_t>(trial)).point);
  }
};

/// A number of a described struct by its name. Throws invalid_option if it has none of this name.
template <Described T>
double number_in(const T& values, std::string_view name) {
  std::optional<double> found;
  std::vector<std::string> numbers;
  T::describe(values, describe_detail::FieldVisitor{[&](const char* field, const auto& value, auto&&...) {
                using Value = std::remove_cvref_t<decltype(value)>;
                if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
                  numbers.emplace_back(field);
                  if (!found && (name.empty() || name == field)) found = static_cast<double>(value);
                }
              }});
  if (!found)
    throw Error(ErrorCode::invalid_option, "the result of the task has no number " + quote(std::string(name)),
                numbers.empty() ? "it has no numbers" : "it has " + join(numbers, ", "));
  return *found;
}

namespace run_detail {

template <Described Input>
bool is_whole_number(const Input& input, std::string_view name) {
  bool is_whole = false;
  Input::describe(input, describe_detail::FieldVisitor{[&](const char* field, const auto& value, auto&&...) {
                    is_whole |= name == field && std::is_same_v<decltype(value), const int64_t&>;
                  }});
  return is_whole;
}

/// Throws invalid_option for a bound or a choice that the input's field cannot have.
template <Described Input>
void check_values_of(const Parameter& parameter, Input input) {
  const bool is_real = parameter.kind == ParameterKind::real;
  if (is_real && is_whole_number(input, parameter.name))
    throw Error(ErrorCode::invalid_option,
                "parameter " + quote(parameter.name) + " cannot be searched from " +
                    text_of(parameter, parameter.low) + " to " + text_of(parameter, parameter.high) +
                    ": it is a whole number in the task's input",
                "write bounds without a point, as in 1..5");
  std::vector<std::string> values = parameter.choices;
  if (parameter.is_number()) values = {text_of(parameter, parameter.low), text_of(parameter, parameter.high)};
  with_context([&] { return "while checking the values of parameter " + quote(parameter.name); },
               [&] {
                 for (const std::string& value : values) set_field(input, parameter.name, value);
               });
}

/// Throws invalid_option for what no task of these types can be searched for.
template <Described Input, Described Output>
void check(const Space& space, const RunOptions& options, const Input& common) {
  if (options.search.stop != StopRule::none)
    throw Error(ErrorCode::invalid_option, "a call of a task cannot be paused, so no stop rule can end it",
                "use sweep::AskTell in a loop of your own");
  number_in(Output{}, options.metric);
  const std::vector<std::string> names = field_names<Input>();
  for (const Parameter& parameter : space.parameters()) {
    if (std::find(names.begin(), names.end(), parameter.name) == names.end())
      describe_detail::unknown_field(parameter.name, names);
    check_values_of(parameter, common);
  }
}

/// The trials of a search as calls of a task. One thread.
template <class Pool, class Task>
class Calls {
 public:
  using Input = typename Task::Input;
  using Output = typename Task::Output;

  Calls(const Pool& pool, Task task, const Input& common, const RunOptions& options)
      : pool_(pool), task_(task), common_(common), options_(options) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() {
    for (const auto& future : futures_) future.cancel();
  }

  void run(AskTell& search) {
    const int64_t places = std::max<int64_t>(1, pool_.size() / std::max<int64_t>(1, options_.workers));
    while (true) {
      while (static_cast<int64_t>(calls_.size()) < places) {
        std::optional<Question> question = search.ask();
        if (!question) break;
        start({std::move(*question)});
      }
      if (calls_.empty()) return;
      take_next(search);
    }
  }

  /// Of the trials, nothing where there is none.
  std::vector<std::optional<Output>>& results() { return results_; }

 private:
  struct Call {
    Question question;
    int64_t losses = 0;
  };
  using Future =
      decltype(std::declval<const Pool&>().parfeval(std::declval<Task>(), std::declval<const Input&>()));

  void start(Call call) {
    Input input = common_;
    for (const auto& [name, value] : call.question.parameters) set_field(input, name, value);
    futures_.push_back(pool_.parfeval(task_, input, {.workers = options_.workers}));
    calls_.push_back(std::move(call));
  }

  // Waits for the call that ends next.
  void take_next(AskTell& search) {
    const auto index = static_cast<std::ptrdiff_t>(*next_finished(futures_));
    const Future future = futures_[static_cast<size_t>(index)];
    Call call = std::move(calls_[static_cast<size_t>(index)]);
    futures_.erase(futures_.begin() + index);
    calls_.erase(calls_.begin() + index);
    const auto trial = static_cast<size_t>(call.question.trial);
    results_.resize(std::max(results_.size(), trial + 1));
    Outcome outcome{.state = TrialState::ended};
    try {
      results_[trial] = future.get();
      outcome.value = number_in(*results_[trial], options_.metric);
    } catch (const Error& error) {
      if (is_passing(name_of(error.code()))) {
        if (error.code() == ErrorCode::cancelled || call.losses++ == options_.retries) throw;
        return start(std::move(call));
      }
      outcome = {.state = TrialState::failed, .error = error.message()};
    }
    search.tell(call.question, outcome);
    if (options_.report) options_.report(with_outcome(search.trials()[trial], outcome));
  }

  Pool pool_;
  Task task_;
  Input common_;
  RunOptions options_;
  std::vector<Call> calls_;
  std::vector<Future> futures_;  // of the calls
  std::vector<std::optional<Output>> results_;
};

}  // namespace run_detail

/// Trains `options.search.count` trials of the task on the session's pool, and waits for all. The task's
/// input is `common`, in which the fields are set that have the names of the parameters. The trials and their
/// results are the same for any pool, unless SearchOptions::free. A trial is `failed` if its metric is not
/// finite or its error would come again (is_passing); it starts again after other errors, and these are
/// thrown after `retries`. Throws invalid_option for a stop rule, because a call of a task cannot be paused:
/// use AskTell.
template <class Session, class Task>
auto run(Session& session, const Space& space, Task task, const RunOptions& options,
         const typename Task::Input& common = {}) {
  using Output = typename Task::Output;
  static_assert(
      Described<Output>,
      "sweep::run looks for the least or greatest number in a task's result: the task returns a struct "
      "with a member `describe`");
  if constexpr (Described<Output>) {
    run_detail::check<typename Task::Input, Output>(space, options, common);
    AskTell search(space, options.search);
    run_detail::Calls calls(session.pool(), task, common, options);
    calls.run(search);
    RunResult<Output> found{space, search.trials(), std::move(calls.results()), {}};
    found.results.resize(found.trials.size());
    if (search.best() != nullptr) found.best = search.best()->number;
    return found;
  }
}

}  // namespace lockstep::sweep
