#include "lockstep/sweep/internal/trial_result.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>

#include "lockstep/base/error.h"
#include "lockstep/base/printed_error.h"
#include "lockstep/base/text.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/follower.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/result.h"
#include "lockstep/record/state.h"
#include "lockstep/record/status_file.h"
#include "lockstep/record/summary.h"
#include "lockstep/sweep/internal/printed_result.h"
#include "lockstep/sweep/internal/sweep_requests.h"
#include "lockstep/sweep/internal/trial_remains.h"

namespace lockstep::sweep {
namespace {

constexpr int64_t kMostOutputBytes = int64_t{1} << 20;  // which a long output still has
constexpr int kRefused = 2;                             // exit status for what the user typed

// The end of what the trial wrote.
std::string last_output(const std::filesystem::path& file) {
  std::error_code none;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, none));
  if (none || size <= 0) return "";
  const OpenFile opened(file, O_RDONLY);
  std::string text(static_cast<size_t>(std::min(size, kMostOutputBytes)), '\0');
  text.resize(opened.read_at(size - static_cast<int64_t>(text.size()), text));
  return text;
}

// The message of the last error that was printed, or the last line.
std::string error_in(const std::string& output) {
  std::string last, error;
  for (const std::string_view line : printed_lines(output)) {
    last = line;
    if (line.starts_with(kErrorTitle)) error = line.substr(kErrorTitle.size());
  }
  return printable(error.empty() ? last : error).substr(0, 500);
}

std::optional<double> metric_of(const record::RunSummary& summary, const std::filesystem::path& folder,
                                const std::string& metric) {
  if (metric == "best_accuracy" || metric == "result") return summary.best_accuracy;
  if (metric == "accuracy") return summary.accuracy;
  if (metric == "loss") return summary.validation_loss;
  if (metric == "test_accuracy") {
    const auto result = record::read_result(folder);
    return result ? result->test_accuracy : std::nullopt;
  }
  return std::nullopt;
}

// Of the error with which it ended; empty if it is not known. A full disk or too little memory may end a
// trial before it has a run folder, which would say it.
std::string code_of(const std::filesystem::path& folder, const EndedTrial& trial) {
  std::string code = trial.code;
  if (!record::holds_run(folder)) return code;
  try {
    for (const record::Event& event : record::read_events(folder)) {
      if (event.kind == "failed") code = record::text(event, "code");
    }
  } catch (const Error&) {
    return "";
  }
  return code;
}

// Whether another try would end the same way.
bool is_repeatable(int status, const std::string& code) {
  return (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) || !is_passing(code);
}

// As the kernel and schedulers end what takes too much memory, also below a shell.
bool is_killed(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                             : WEXITSTATUS(status) == launch::kSignalStatus + SIGKILL;
}

// Whether the run's newest attempt was asked for its end. It may have paused or saved before it did what it
// was asked for, or before it read the request.
bool was_asked_to_end(const std::filesystem::path& folder) {
  const auto stop = describe_detail::as_text(record::RequestKind::stop);
  const auto finish = describe_detail::as_text(record::RequestKind::finish);
  int64_t newest = 0;
  bool asked = false;
  try {
    record::Follower(folder).read_all([&](const record::Event& event) {
      if (event.writer != record::rank_writer(0)) return;
      if (event.attempt > newest) asked = false;
      newest = event.attempt;
      if (event.kind != record::Answer::kind) return;
      const std::string request = record::text(event, "request");
      asked = asked || request == stop || request == finish;
    });
  } catch (const Error&) {
    return false;
  }
  return asked || record::is_end_asked(folder);
}

Outcome failure(const record::RunSummary& summary, std::string error) {
  return {.state = TrialState::failed,
          .step = summary.step.value_or(0),
          .total_steps = summary.total_steps.value_or(0),
          .error = std::move(error)};
}

bool has_ended_on_request(const std::filesystem::path& folder) {
  const auto run = record::read_result(folder);
  return run && run->reason == "request";
}

std::string words_without_value(const std::string& metric, TrialState state, int64_t step) {
  if (state == TrialState::stopped) return "it was stopped before it had a " + metric;
  if (state == TrialState::waiting)
    return "it has no " + metric + " at step " + std::to_string(step) + ": it was not validated until then";
  return "it has no " + metric;
}

struct TrialRun {
  const std::filesystem::path& folder;
  const record::RunSummary& summary;
};

// What the run has come to.
TrialResult result_in(const TrialRun& run, const SweepSpec& spec, TrialState state) {
  const record::RunSummary& summary = run.summary;
  const auto value = metric_of(summary, run.folder, spec.metric());
  const int64_t step = summary.step.value_or(0);
  TrialResult result{.seconds = summary.seconds.value_or(0)};
  result.outcome = Outcome{.state = state,
                           .value = value.value_or(kAbsent),
                           .step = step,
                           .total_steps = summary.total_steps.value_or(0),
                           .error = value ? "" : words_without_value(spec.metric(), state, step)};
  const auto recorded = record::read_result(run.folder);
  if (recorded && summary.state == record::RunState::ended) result.weights_hash = recorded->weights_hash;
  return result;
}

TrialResult result_of_training(const SweepPaths& paths, const SweepSpec& spec, const EndedTrial& trial,
                               int status) {
  const Segment& segment = trial.segment;
  const std::filesystem::path folder = paths.trial(segment.trial);
  const std::string how = "the trial " + launch::text_of_status(status);
  TrialResult result;
  if (!record::holds_run(folder)) {
    const std::string error = error_in(last_output(paths.output(segment.trial)));
    if (is_repeatable(status, trial.code)) {
      result.outcome = failure({}, error);
    } else {
      result.lost = WIFEXITED(status) && !error.empty() ? error : how;
    }
    return result;
  }
  const record::RunSummary summary = record::summary_of(folder);
  const bool ended = summary.state == record::RunState::ended;
  const bool stopped = summary.state == record::RunState::stopped;
  const bool asked = stopped && was_asked_to_end(folder);
  const bool paused = stopped && segment.until > 0 && summary.step.value_or(0) >= segment.until;
  if (asked || (WIFEXITED(status) && WEXITSTATUS(status) == 0 && (ended || paused))) {
    const bool by_hand = asked || (ended && has_ended_on_request(folder));
    return result_in({folder, summary}, spec,
                     by_hand  ? TrialState::stopped
                     : paused ? TrialState::waiting
                              : TrialState::ended);
  }
  result.seconds = summary.seconds.value_or(0);
  if (summary.state == record::RunState::failed && is_repeatable(status, code_of(folder, trial))) {
    result.outcome = failure(summary, summary.reason);
  } else {
    // An attempt that ended before it had a record has said why.
    const std::string said = WIFEXITED(status) && WEXITSTATUS(status) < launch::kSignalStatus
                                 ? error_in(last_output(paths.output(segment.trial)))
                                 : "";
    result.lost = summary.state == record::RunState::failed ? summary.reason : said.empty() ? how : said;
  }
  return result;
}

std::string words_without_number(const std::string& metric, const PrintedResult& printed) {
  return "no line of its output gives a value of " + quote(metric) +
         (printed.word.empty() ? "" : ": " + quote(printable(printed.word).substr(0, 60)) + " is no number");
}

// Leaves out the middle of the output.
PrintedResult printed_by(const SweepPaths& paths, const SweepSpec& spec, const EndedTrial& trial) {
  const ResultReader reader = trial.output ? TrialOutput(*trial.output).finish() : ResultReader();
  return reader.result_of(paths.output(trial.segment.trial), spec.metric());
}

TrialResult result_of_program(const SweepPaths& paths, const SweepSpec& spec, const EndedTrial& trial,
                              int status) {
  const Segment& segment = trial.segment;
  TrialResult result;
  if (WIFSIGNALED(status)) {
    result.lost = "the trial " + launch::text_of_status(status);
    return result;
  }
  // As a shell ends when what it has started was killed, for lack of memory or by a scheduler.
  for (const int signal : {SIGKILL, SIGTERM}) {
    if (WEXITSTATUS(status) != launch::kSignalStatus + signal) continue;
    result.lost = "a program of the trial " + launch::text_of_status(signal);
    return result;
  }
  const std::filesystem::path folder = paths.trial(segment.trial);
  record::RunSummary summary;
  if (record::holds_run(folder)) summary = record::summary_of(folder);
  result.seconds = summary.seconds.value_or(0);
  if (WEXITSTATUS(status) != 0) {
    const std::string last = error_in(last_output(paths.output(segment.trial)));
    result.outcome =
        failure(summary, "it " + launch::text_of_status(status) + (last.empty() ? "" : ": " + last));
    return result;
  }
  const PrintedResult printed = printed_by(paths, spec, trial);
  const auto value = printed.value ? printed.value : metric_of(summary, folder, spec.metric());
  result.outcome = Outcome{.state = value ? TrialState::ended : TrialState::failed,
                           .value = value.value_or(kAbsent),
                           .step = summary.step.value_or(0),
                           .total_steps = summary.total_steps.value_or(0),
                           .error = value ? "" : words_without_number(spec.metric(), printed)};
  return result;
}

TrialResult checked(TrialResult result, const SweepSpec& spec) {
  if (!result.outcome || result.outcome->state == TrialState::failed) return result;
  if (std::isfinite(result.outcome->value)) return result;
  result.outcome->state = TrialState::failed;
  if (result.outcome->error.empty())
    result.outcome->error = "its " + spec.metric() + " is not a finite number";
  return result;
}

}  // namespace

TrialResult result_of(const SweepPaths& paths, const SweepSpec& spec, const EndedTrial& trial) {
  const int status = trial.end.status.value_or(SIGKILL);
  TrialResult result = spec.trains() ? result_of_training(paths, spec, trial, status)
                                     : result_of_program(paths, spec, trial, status);
  const bool is_lost = !result.outcome;
  if (is_lost && !spec.trains()) {
    // Its result if a person stops the trial before its next attempt.
    result.printed = printed_by(paths, spec, trial).value;
    if (result.printed && !std::isfinite(*result.printed)) result.printed.reset();
  } else if (trial.output && (spec.trains() || status != 0)) {
    TrialOutput(*trial.output).release();
  }
  if (is_lost && (is_killed(status) ||
                  code_of(paths.trial(trial.segment.trial), trial) == name_of(ErrorCode::out_of_memory)))
    result.hint = memory_hint(spec);
  return checked(std::move(result), spec);
}

std::optional<TrialResult> result_of_asked_end(const SweepPaths& paths, const SweepSpec& spec,
                                               const Segment& segment) {
  const std::filesystem::path folder = paths.trial(segment.trial);
  if (!spec.trains() || !record::holds_run(folder) || !was_asked_to_end(folder)) return std::nullopt;
  const record::RunSummary summary = record::summary_of(folder);
  // It had no steps left to leave out; the next attempt says so.
  if (summary.state == record::RunState::ended && !has_ended_on_request(folder)) return std::nullopt;
  return checked(result_in({folder, summary}, spec, TrialState::stopped), spec);
}

std::optional<TrialResult> end_between_attempts(const SweepPaths& paths, const SweepSpec& spec,
                                                const Segment& segment, std::optional<double> printed) {
  if (spec.trains()) {
    ask_run_to_end(paths, segment.trial);
    return result_of_asked_end(paths, spec, segment);
  }
  kill_remains(variable_of_trial(std::filesystem::absolute(paths.trial(segment.trial)).string()));
  const TrialOutput output(paths.output(segment.trial), spec.metric());
  TrialResult result = result_of(paths, spec, {.segment = segment, .end = launch::End{0}, .output = output});
  Outcome& outcome = *result.outcome;
  if (printed) {
    outcome.value = *printed;
    outcome.error.clear();
  }
  if (printed || outcome.state == TrialState::ended) outcome.state = TrialState::stopped;
  return result;
}

std::string memory_hint(const SweepSpec& spec) {
  return spec.options.profile.empty() ? "if memory ran out, train fewer trials at once (--trials)"
                                      : "if memory ran out, give each job more (\"memory\" of the profile " +
                                            quote(spec.options.profile) + ") or run fewer (--trials)";
}

LogLine line_of(const Segment& segment, const TrialResult& result) {
  const Outcome& outcome = *result.outcome;
  LogLine line{
      .kind = LogKind::outcome, .trial = segment.trial, .until = segment.until, .state = outcome.state};
  if (std::isfinite(outcome.value)) line.value = outcome.value;
  line.step = outcome.step;
  line.total_steps = outcome.total_steps;
  line.seconds = result.seconds;
  if (!result.weights_hash.empty()) line.weights_hash = result.weights_hash;
  if (!outcome.error.empty()) line.text = outcome.error;
  return line;
}

LogLine line_of_loss(const SweepPaths& paths, const Segment& segment, const TrialResult& result) {
  const auto status = record::read_status(paths.trial(segment.trial));
  return {.kind = LogKind::lost,
          .trial = segment.trial,
          .until = segment.until,
          .value = result.printed,
          .step = status ? status->step : 0,
          .text = result.lost};
}

}  // namespace lockstep::sweep
