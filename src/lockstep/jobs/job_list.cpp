#include "lockstep/jobs/job_list.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/attempt_end.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/jobs/job_store.h"
#include "lockstep/jobs/local_attempt.h"
#include "lockstep/record/result.h"
#include "lockstep/record/state.h"
#include "lockstep/record/summary.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReaders = 4;

std::vector<int64_t> numbers_in(const fs::path& root) {
  std::vector<int64_t> numbers;
  std::error_code code;
  for (fs::directory_iterator at(root, code), end; !code && at != end; at.increment(code)) {
    if (const auto number = parse_number<int64_t>(at->path().filename().string()); number && *number > 0)
      numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// How far a cross-validation is: its runs are done one after the other.
void add_folds(JobView& view, const std::vector<fs::path>& runs, int64_t folds) {
  view.step = 0;
  double done = 0;
  for (const fs::path& run : runs) {
    const auto status = record::read_status(run);
    if (!status) continue;
    *view.step += status->step;
    if (record::is_final(status->state)) {
      done += status->state == record::RunState::ended ? 1 : 0;
    } else if (status->total_steps > 0) {
      done += static_cast<double>(status->step) / static_cast<double>(status->total_steps);
    }
    if (const auto result = record::read_result(run)) view.accuracy = result->accuracy;
  }
  view.progress = done / static_cast<double>(folds);
}

void add_run(JobView& view) {
  const std::vector<fs::path> runs = runs_in(view.run_folder);
  if (const int64_t folds = folds_in(view.run_folder); folds > 0) return add_folds(view, runs, folds);
  const auto status = record::read_status(view.run_folder);
  if (!status) return;
  view.step = status->step;
  if (status->total_steps > 0) {
    view.total_steps = status->total_steps;
    view.progress = static_cast<double>(status->step) / static_cast<double>(status->total_steps);
  }
  if (const auto result = record::read_result(view.run_folder)) {
    view.accuracy = result->accuracy;
  } else if (view.state == JobState::running) {
    view.accuracy = record::summary_of(view.run_folder).accuracy;
  }
  // A resumed run has steps that this attempt did not make.
  if (view.state == JobState::running && view.progress && status->attempt == 0 && status->step > 0)
    view.seconds_left = (status->written - status->started) * (1 - *view.progress) / *view.progress;
}

void add_values(const JobPaths& paths, JobView& view) {
  if (view.attempt == 0 || ::access(paths.values(view.attempt).c_str(), F_OK) != 0) return;
  const JobStore store(paths, view.attempt);
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto value = store.value(name);
    return value && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
  };
  view.accuracy = number("accuracy");
  view.progress = number("progress");
  if (view.state == JobState::running && view.progress && *view.progress > 0 && *view.progress <= 1 &&
      view.seconds)
    view.seconds_left = *view.seconds * (1 - *view.progress) / *view.progress;
}

void add_state(const JobPaths& paths, const JobSpec& spec, JobView& view) {
  const StateOfJob found = state_of(paths, spec);
  view.state = found.state;
  view.attempt = found.attempt;
  if (const auto& result = found.result ? found.result : found.previous) {
    view.reason = result->reason;
    if (found.result) view.status = result->status;
    if (found.result && result->started > 0) {
      view.started = result->started;
      view.seconds = std::max(0.0, result->ended - result->started);
    }
    if (found.result) view.ended = result->ended;
    if (result->step >= 0) view.step = result->step;
  } else if (found.attempt > 0) {
    const auto started = read_started(paths, found.attempt);
    if (started) {
      view.started = started->time;
      view.seconds = std::max(0.0, now_seconds() - started->time);
    }
    if (found.state == JobState::running && waits_for_space(paths, found.attempt))
      view.reason = "its command has ended; its result waits for space on the disk";
  }
  if (found.state == JobState::queued && found.attempt == 0 && !spec.after.empty())
    view.reason = "after job " + join(spec.after, ", ");
  if ((found.state == JobState::queued || found.state == JobState::lost) && is_elsewhere(spec))
    view.reason = "in the queue of the machine " + quote(spec.host);
}

}  // namespace

std::string shown_profile(const std::string& name) { return name.substr(0, name.rfind(kVia)); }

std::string shown_id(const JobPaths& paths) { return environment_variable(kShownAs) + paths.id(); }

bool is_over(const JobView& view) {
  return !view.state || is_over(*view.state) || (*view.state == JobState::lost && view.scheduler != "local");
}

JobView view_of(const JobPaths& paths) {
  JobView view{.id = shown_id(paths), .folder = paths.folder.string()};
  try {
    JobSpec spec = read_spec(paths);
    view.name = spec.name;
    view.profile = shown_profile(spec.profile);
    view.scheduler = spec.scheduler;
    view.host = spec.host;
    view.workers = spec.workers;
    view.nodes = spec.nodes;
    view.submitted = spec.submitted;
    view.run_folder = spec.run_folder;
    add_state(paths, spec, view);
    view.command = std::move(spec.command);
    if (!view.run_folder.empty()) {
      add_run(view);
    } else {
      add_values(paths, view);
    }
  } catch (const Error& error) {
    if (view.state) return view;  // only its run cannot be read
    view.reason = error.message();
  }
  return view;
}

std::vector<JobView> list_jobs(const fs::path& root) {
  const std::vector<int64_t> numbers = numbers_in(root);
  std::vector<JobView> views(numbers.size());
  std::atomic<size_t> next = 0;
  const auto read = [&] {
    for (size_t at = next++; at < views.size(); at = next++)
      views[at] = view_of({root / std::to_string(numbers[at])});
  };
  std::vector<std::jthread> readers;
  constexpr size_t kWorthAThread = 64;
  for (size_t i = 1; i < std::min(kReaders, numbers.size() / kWorthAThread + 1); ++i)
    readers.emplace_back(read);
  read();
  readers.clear();
  return views;
}

JobPaths find_job(const fs::path& root, const std::string& word) {
  const auto number = parse_number<int64_t>(word);
  if (number && *number > 0) {
    const JobPaths paths{root / std::to_string(*number)};
    if (::access(paths.folder.c_str(), F_OK) == 0) return paths;
  }
  std::vector<std::string> names;
  std::optional<JobPaths> found;
  for (const int64_t id : numbers_in(root)) {
    const JobPaths paths{root / std::to_string(id)};
    try {
      const std::string name = read_spec(paths).name;
      if (!name.empty()) names.push_back(name);
      if (name == word && !word.empty()) found = paths;
    } catch (const Error&) {  // a list shows what is wrong with it
    }
  }
  if (found) return *found;
  const std::string near = number ? "" : nearest(word, names);
  throw Error(
      ErrorCode::not_found, "there is no job " + quote(word),
      near.empty() ? "lockstep jobs lists them" : "did you mean " + near + "? lockstep jobs lists them");
}

}  // namespace lockstep::jobs
