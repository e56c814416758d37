// The commands on one job or several: show, wait, cancel, delete, requeue, and the queue.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <optional>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/job_places.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/job_change.h"
#include "lockstep/jobs/job_store.h"
#include "lockstep/jobs/left_folders.h"
#include "lockstep/jobs/local_queue.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobState;
using jobs::JobView;
using JobRows = std::vector<std::vector<std::string>>;

constexpr std::chrono::milliseconds kJobInterval{100};
constexpr double kSecondsBetweenWakes = 2;

struct WaitChoice {
  double timeout = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Waiting");
    field("timeout", self.timeout, "seconds to wait; the exit status is then 124. 0: without a limit",
          between(0, 1e9));
  };
};

struct QueueChoice {
  int64_t workers = 0;
  double memory_gb = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Limits of this machine's queue, kept from now on");
    field("workers", self.workers, "workers of all jobs that run at a time; 0: as before, at first the cores",
          between(0, 1'000'000));
    field("memory-gb", self.memory_gb,
          "GB of memory of all jobs that run at a time; 0: as before, at first what the machine has",
          between(0, 1e9));
  };
};

std::string time_text(double seconds) {
  if (!(seconds > 0 && seconds < 1e11)) return "";
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&whole, &parts) == nullptr) return "";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

void add_row(JobRows& rows, const std::string& name, const std::string& value) {
  if (!value.empty()) rows.push_back({name, value});
}

JobRows rows_of(const JobView& view) {
  JobRows rows;
  std::string command;
  for (const std::string& word : view.command) command += (command.empty() ? "" : " ") + shell_word(word);
  add_row(rows, "state", state_word(view) + (view.reason.empty() ? "" : ": " + view.reason));
  add_row(rows, "name", view.name);
  add_row(rows, "command", command);
  add_row(rows, "profile", view.profile);
  add_row(rows, "workers",
          with_commas(view.workers) + (view.nodes > 1 ? " on " + with_commas(view.nodes) + " nodes" : ""));
  if (view.attempt > 0) add_row(rows, "attempt", with_commas(view.attempt));
  if (view.step)
    add_row(rows, "step",
            with_commas(*view.step) + (view.total_steps ? " of " + with_commas(*view.total_steps) : ""));
  if (view.accuracy) add_row(rows, "accuracy", fixed(*view.accuracy, 4));
  if (view.status) add_row(rows, "exit status", with_commas(*view.status));
  add_row(rows, "submitted", time_text(view.submitted));
  if (view.started) add_row(rows, "started", time_text(*view.started));
  if (view.ended) add_row(rows, "ended", time_text(*view.ended));
  if (view.seconds) add_row(rows, "time", as_duration(*view.seconds));
  if (view.seconds_left) add_row(rows, "left", as_duration(*view.seconds_left));
  add_row(rows, "run", view.run_folder);
  add_row(rows, "folder", view.folder);
  return rows;
}

std::vector<JobPaths> jobs_of(const Call& call) {
  std::vector<JobPaths> all;
  for (const std::string& word : call.words) all.push_back(jobs::find_job(jobs::jobs_folder(), word));
  return all;
}

std::string job_text(const std::string& id, const std::string& text) {
  return printable("job " + id + ": " + text) + "\n";
}

int status_of(const JobView& view) {
  if (view.state == JobState::ended) return 0;
  return static_cast<int>(view.status && *view.status > 0 ? *view.status : 1);
}

// Of a job that another command changes or has deleted, that is damaged or of another machine. The command
// goes on with its other jobs.
void note_refusal(const Error& error, Console& console) {
  constexpr std::array kOfOneJob{ErrorCode::io, ErrorCode::not_found, ErrorCode::corrupt_data,
                                 ErrorCode::cluster};
  if (std::ranges::find(kOfOneJob, error.code()) == kOfOneJob.end()) throw Error(error);
  console.note(printable(error.message()) + "\n" +
               (error.hint().empty() ? "" : "  hint: " + printable(error.hint()) + "\n"));
}

}  // namespace

std::vector<FieldInfo> job_show_fields() { return fields_of<JsonOutput>(); }
std::vector<FieldInfo> job_wait_fields() { return fields_of<WaitChoice>(); }
std::vector<FieldInfo> queue_run_fields() { return fields_of<QueueChoice>(); }

int run_job_show(const Call& call, Console& console) {
  const JobPaths paths = jobs_of(call).front();
  look_at_local_queue(paths.folder.parent_path(), console);
  const JobView view = job_now(paths, console);
  const jobs::JobStore store(paths, view.attempt);
  const auto values = store.values();
  const auto files = store.files();
  if (settings_of<JsonOutput>(call).json) {
    Json json = to_json(view);
    json["values"] = values;
    json["files"] = files;
    console.print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return 0;
  }
  console.print("job " + view.id + "\n" + in_columns(rows_of(view), "ll"));
  JobRows rows;
  for (const auto& [name, value] : values)
    add_row(rows, name, value.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!rows.empty()) console.print("\nvalues\n" + in_columns(rows, "ll"));
  rows.clear();
  for (const std::string& name : files) rows.push_back({name});
  if (!rows.empty()) console.print("\nfiles\n" + in_columns(rows, "l"));
  return 0;
}

int run_job_wait(const Call& call, Console& console) {
  const double timeout = settings_of<WaitChoice>(call).timeout;
  const std::vector<JobPaths> all = jobs_of(call);
  launch::StopSignals signals("the jobs go on; not waiting any longer");
  const auto start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  int status = 0;
  double woken = -kSecondsBetweenWakes;
  JobWatch watch(console, signals.token());
  for (const JobPaths& paths : all) {
    JobView view = watch.now(paths);
    while (!jobs::is_over(view)) {
      if (signals.token().stop_requested()) return launch::kSignalStatus + signals.signal();
      constexpr int kTimedOut = 124;  // as timeout(1)
      if (timeout > 0 && seconds_since(start) > timeout) return kTimedOut;
      if (seconds_since(start) > woken + kSecondsBetweenWakes) {
        look_at_local_queue(paths.folder.parent_path(), console);
        woken = seconds_since(start);
      }
      never.wait_for(lock, signals.token(), kJobInterval, [] { return false; });
      view = watch.now(paths);
    }
    console.print(
        job_text(jobs::shown_id(paths), state_word(view) + (view.reason.empty() ? "" : ": " + view.reason)));
    if (status == 0) status = status_of(view);
  }
  return status;
}

int run_job_cancel(const Call& call, Console& console) {
  for (const JobPaths& paths : jobs_of(call)) {
    const bool cancelled = cluster::cancel_job(paths, runner_program());
    const JobView view = job_now(paths, console);
    console.print(job_text(jobs::shown_id(paths), !cancelled ? "it was over already: " + state_word(view)
                                                  : jobs::is_over(view)
                                                      ? state_word(view)
                                                      : "asked to end; it is still " + state_word(view)));
  }
  return 0;
}

int run_job_delete(const Call& call, Console& console) {
  int refused = 0;
  for (const JobPaths& paths : jobs_of(call)) {
    std::optional<jobs::FileLock> change;
    try {
      if (jobs::has_spec(paths)) change = jobs::take_to_change(paths);  // else nobody starts it again
    } catch (const Error& error) {
      note_refusal(error, console);
      ++refused;
      continue;
    }
    const JobView view = job_now(paths, console);
    if (!jobs::is_over(view)) {
      console.note(job_text(jobs::shown_id(paths), "it is " + state_word(view)) +
                   "  hint: lockstep job cancel " + jobs::shown_id(paths) + "\n");
      ++refused;
      continue;
    }
    try {
      const fs::path gone = jobs::take_out(paths.folder);
      change.reset();  // on NFS a file that is open leaves another one in the folder
      jobs::remove_taken_out(gone);
    } catch (const Error& error) {
      note_refusal(error, console);
      ++refused;
      continue;
    }
    console.print(job_text(jobs::shown_id(paths), "deleted"));
  }
  return refused > 0 ? 1 : 0;
}

int run_job_requeue(const Call& call, Console& console) {
  int refused = 0;
  for (const JobPaths& paths : jobs_of(call)) {
    try {
      if (cluster::requeue_job(paths, runner_program())) {
        console.print(job_text(jobs::shown_id(paths), "in the queue again"));
        continue;
      }
      console.note(job_text(jobs::shown_id(paths), "it is not over"));
    } catch (const Error& error) {
      note_refusal(error, console);
    }
    ++refused;
  }
  return refused > 0 ? 1 : 0;
}

int run_queue_run(const Call& call, Console& console) {
  const auto choice = settings_of<QueueChoice>(call);
  const fs::path root = jobs::jobs_folder();
  make_folders(root);
  const jobs::LocalQueue queue(root);
  if (choice.workers > 0 || choice.memory_gb > 0)
    queue.set_limits(
        {.workers = choice.workers, .memory = static_cast<int64_t>(choice.memory_gb * 1024 * 1024 * 1024)});
  wake_local_queue(root);
  const jobs::QueueLimits limits = queue.limits();
  console.print("the queue of this machine has " + counted(limits.workers, "worker") + " and " +
                as_bytes(limits.memory) + "\n");
  return 0;
}

int run_queue_runner(const Call& call, Console&) {
  jobs::LocalQueue(call.words.front()).run(runner_program());
  return 0;
}

}  // namespace lockstep::cli
