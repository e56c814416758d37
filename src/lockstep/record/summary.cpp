#include "lockstep/record/summary.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sys/stat.h>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/log_ends.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"

namespace lockstep::record {
namespace {

constexpr int64_t kMostManifest = int64_t{1} << 24;

bool is_kind(const std::filesystem::path& path, mode_t kind) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

// A file of another kind, such as a pipe, may never end.
bool is_absent_or_file(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> at_least(int64_t value, int64_t least) {
  return value >= least ? std::optional(value) : std::nullopt;
}

// -1 if it is missing or no count.
int64_t whole(const Event& event, const char* key) {
  constexpr double kMost = 1e15;
  const double value = number(event, key, -1);
  return value >= 0 && value <= kMost ? static_cast<int64_t>(value) : -1;
}

std::optional<double> written_at(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

// Format 2 has the plan in groups; format 1 and the event `plan` have one flat object.
std::string network_of(const Json& plan) {
  const auto found = plan.find("network");
  if (found == plan.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const auto inner = found->is_object() ? found->find("network") : found->end();
  return found->is_object() && inner != found->end() && inner->is_string() ? inner->get<std::string>() : "";
}

std::string network_of_manifest(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = RunPaths{run_folder}.options();
  if (!is_kind(path, S_IFREG)) return "";
  try {
    const Json manifest = parse_json(read_file(path, kMostManifest));
    const auto plan = manifest.is_object() ? manifest.find("plan") : manifest.end();
    return manifest.is_object() && plan != manifest.end() && plan->is_object() ? network_of(*plan) : "";
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return "";  // also of another program's file with this name
}

void take_state(const std::filesystem::path& run_folder, RunSummary& summary) {
  try {
    const StateOfRun found = state_of(run_folder);
    summary.state = found.state;
    summary.reason = found.reason;
    summary.hint = found.hint;
    summary.step = at_least(found.step, 0);
    summary.total_steps = at_least(found.total_steps, 1);
    summary.epoch = found.epoch;
    summary.host = found.host;
    summary.best_accuracy = found.best_accuracy;
    summary.best_step = found.best_step;
  } catch (const Error& error) {
    summary.reason = error.message();
    summary.hint = error.hint();
  }
}

void take_beginning(const LogEnds& ends, RunSummary& summary) {
  if (!ends.first.empty()) summary.started = finite(ends.first.front().time);
  for (const Event& event : ends.newest) {
    if (event.kind == Environment::kind) {
      if (const std::string data = text(event, "data"); !data.empty()) summary.data = data;
      if (summary.host.empty()) summary.host = text(event, "host");
    }
    if (event.kind != PlanOfRun::kind) continue;
    if (summary.data.empty()) summary.data = text(event, "folder");
    if (summary.network.empty()) summary.network = text(event, "network");
    if (!summary.total_steps) summary.total_steps = at_least(whole(event, "total_steps"), 1);
  }
}

// What the newest attempt makes again: an earlier one's validations from here on are not the run's.
int64_t first_step_of_newest(const LogEnds& ends) {
  for (const Event& event : ends.newest) {
    if (event.kind == FirstStep::kind || event.kind == Step::kind) return event.step;
  }
  return std::numeric_limits<int64_t>::max();
}

// The status has the best of a log of any length, but is written later.
void take_validation(const Event& event, RunSummary& summary) {
  summary.accuracy = finite(number(event, "accuracy"));
  summary.validation_loss = finite(number(event, "loss"));
  if (!flag(event, "best") || (summary.best_step && event.step <= *summary.best_step)) return;
  summary.best_accuracy = summary.accuracy;
  summary.best_step = event.step;
}

void take_end(const LogEnds& ends, RunSummary& summary) {
  const int64_t made_again = first_step_of_newest(ends);
  for (const Event& event : ends.last) {
    const bool is_of_newest = event.attempt == ends.last.back().attempt;
    if (event.kind == Step::kind) summary.loss = finite(number(event, "loss"));
    if (event.kind == Validation::kind && (is_of_newest || event.step < made_again))
      take_validation(event, summary);
    if (event.kind == End::kind && is_of_newest) {
      summary.seconds = finite(number(event, "seconds"));
      summary.test_accuracy = finite(number(event, "test_accuracy"));
      if (const auto best = finite(number(event, "best_accuracy"))) summary.best_accuracy = best;
      if (const auto step = at_least(whole(event, "best_step"), 1)) summary.best_step = step;
    }
    if (!is_of_newest) continue;
    summary.step = std::max(summary.step.value_or(0), event.step);
    summary.epoch = std::max(summary.epoch, event.epoch);
  }
}

// Of the newest attempt, by the writer's clock.
std::optional<double> seconds_logged(const LogEnds& ends) {
  if (ends.newest.empty()) return std::nullopt;
  const double begun = ends.newest.front().time;
  double last = begun;
  for (const Event& event : ends.last) last = std::max(last, event.time);
  return finite(last - begun);
}

void take_result(const Result& result, RunSummary& summary) {
  const auto take = [](const auto& value, auto& into) {
    if (value) into = value;
  };
  take(result.accuracy, summary.accuracy);
  take(result.loss, summary.validation_loss);
  take(result.best_accuracy, summary.best_accuracy);
  take(result.best_step, summary.best_step);
  take(result.test_accuracy, summary.test_accuracy);
  summary.step = result.steps;
  if (result.epochs > 0) summary.epoch = result.epochs;
  if (result.seconds > 0) summary.seconds = result.seconds;
}

std::optional<double> last_sign_of(const std::filesystem::path& run_folder) {
  const RunPaths paths{run_folder};
  std::optional<double> last = written_at(paths.status());
  try {
    for (const LogFile& log : log_files(run_folder)) {
      if (const auto time = written_at(log.path); time && (!last || *time > *last)) last = time;
    }
  } catch (const Error&) {  // the state's reason says it
  }
  return last ? last : written_at(paths.lock());
}

}  // namespace

bool is_run_folder(const std::filesystem::path& folder) {
  const RunPaths paths{folder};
  const bool has_status = is_kind(paths.status(), S_IFREG), has_options = is_kind(paths.options(), S_IFREG);
  try {
    if (is_kind(paths.events(), S_IFDIR) && !log_files(folder).empty()) return true;
    if (has_status && read_status(folder)) return true;
  } catch (const Error&) {
    return has_options && has_status;
  }
  return has_options && is_kind(paths.lock(), S_IFREG);
}

RunSummary summary_of(const std::filesystem::path& run_folder) {
  const RunPaths paths{run_folder};
  RunSummary summary;
  summary.folder = run_folder.native();
  for (const std::filesystem::path& path : {paths.status(), paths.result(), paths.options(), paths.lock()}) {
    if (is_absent_or_file(path)) continue;
    summary.reason = quote(path.native()) + " is no file";
    return summary;
  }
  take_state(run_folder, summary);
  const LogEnds ends = ends_of_log(run_folder);
  summary.network = network_of_manifest(run_folder);
  take_beginning(ends, summary);
  take_end(ends, summary);
  // A result beside a failed attempt is of an earlier one.
  const bool has_own_result = summary.state && is_final(*summary.state) && *summary.state != RunState::failed;
  if (const auto result = read_result(run_folder); result && has_own_result) take_result(*result, summary);
  summary.last_sign = last_sign_of(run_folder);
  if (!summary.seconds) summary.seconds = seconds_logged(ends);
  return summary;
}

}  // namespace lockstep::record
