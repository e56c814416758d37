// The command `jobs`: the list.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/job_places.h"
#include "lockstep/cli/relay.h"
#include "lockstep/cli/row_limit.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

using jobs::JobState;
using jobs::JobView;

constexpr auto kJobsInterval = std::chrono::seconds(2);
constexpr auto kRelayedInterval = std::chrono::seconds(5);
constexpr size_t kMostCommand = 40;
constexpr int kBesideCommand = 10;  // the columns of a job's number, where the command has the rest of a line

struct JobsChoice {
  std::string state;
  int64_t limit = 0;
  bool here = false;
  bool watch = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Rows");
    field("state", self.state,
          "show only jobs in this state: queued, running, ended, failed, cancelled, lost");
    field("limit", self.limit, "show only the last N rows of each list; 0: all", between(0, 1e9));
    field("here", self.here, "show only jobs of this machine's folder; ask no login node");
    field("watch", self.watch, "show it again every two seconds, until Ctrl-C");
  };
};

std::string command_text(const JobView& view, size_t most) {
  std::string text;
  for (size_t i = 0; i < view.command.size() && text.size() <= most; ++i) {
    const std::string& word = view.command[i];
    const bool is_program = i == 0 && word.find('/') != std::string::npos;
    text +=
        (i == 0 ? "" : " ") + shell_word(is_program ? std::filesystem::path(word).filename().string() : word);
  }
  return text.size() > most ? text.substr(0, most - 3) + "..." : text;
}

std::string progress_text(const JobView& view) {
  if (view.step && view.total_steps) return with_commas(*view.step) + "/" + with_commas(*view.total_steps);
  if (view.progress) return fixed(100 * *view.progress, 0) + "%";
  return view.step ? with_commas(*view.step) : "-";
}

std::string reason_text(const JobView& view) { return view.state == JobState::running ? "" : view.reason; }

std::string table_of(const std::vector<JobView>& views, int width) {
  std::vector<std::vector<std::string>> rows{
      {"job", "name", "state", "progress", "accuracy", "time", "left", "profile", "command"}};
  bool has_reasons = false;
  for (const JobView& view : views) has_reasons = has_reasons || !reason_text(view).empty();
  if (has_reasons) rows.front().emplace_back("reason");
  const size_t most = has_reasons
                          ? kMostCommand
                          : std::max(kMostCommand, static_cast<size_t>(std::max(0, width - kBesideCommand)));
  for (const JobView& view : views) {
    rows.push_back(
        {view.id, view.name, state_word(view), progress_text(view),
         view.accuracy ? fixed(*view.accuracy, 4) : "-", view.seconds ? as_duration(*view.seconds) : "-",
         view.seconds_left ? as_duration(*view.seconds_left) : "-", view.profile, command_text(view, most)});
    if (has_reasons) rows.back().push_back(reason_text(view));
  }
  return in_columns_within(width, std::move(rows), has_reasons ? "rllrrrrlll" : "rllrrrrll");
}

// Rows of a list, and how many jobs there are in all.
struct JobRows {
  std::vector<JobView> views{};
  size_t total = 0;
};

std::string count_of_jobs(const JobRows& rows) {
  std::map<std::string, int64_t> counts;
  for (const JobView& view : rows.views) ++counts[state_word(view)];
  std::vector<std::string> parts;
  for (const auto& [word, count] : counts) parts.push_back(with_commas(count) + " " + word);
  return count_line(rows.views.size(), rows.total, "job", join(parts, ", "));
}

JobRows read_jobs(const std::filesystem::path& root, const JobsChoice& choice, Console& console,
                  const std::stop_token& stop = {}) {
  if (!std::filesystem::is_directory(root)) return {};
  look_at_local_queue(root, console);
  std::vector<JobView> views = jobs::list_jobs(root);
  add_standings(views, console, stop);
  std::erase_if(
      views, [&](const JobView& view) { return !choice.state.empty() && state_word(view) != choice.state; });
  const size_t total = keep_last(views, choice.limit);
  return {std::move(views), total};
}

std::string jobs_text(const JobRows& rows, int width) {
  if (rows.views.empty()) return "there are no jobs\n  hint: lockstep batch -- train FOLDER makes one\n";
  return table_of(rows.views, width) + "\n" + count_of_jobs(rows);
}

// Those behind login nodes, as a list there prints them.
std::vector<RelayedJobs> read_relayed(const JobsChoice& choice, std::vector<std::string> options,
                                      Console& console, const std::stop_token& stop = {}) {
  if (choice.here) return {};
  if (!choice.state.empty()) options.push_back("--state=" + choice.state);
  if (choice.limit > 0) options.push_back("--limit=" + std::to_string(choice.limit));
  return relayed_jobs(options, console, stop);
}

// Those of this machine, and those behind login nodes.
std::string all_jobs_text(const JobRows& here, const std::vector<RelayedJobs>& relayed, int width) {
  std::string text = here.views.empty() && !relayed.empty() ? "" : jobs_text(here, width);
  for (const RelayedJobs& there : relayed)
    text += (text.empty() ? "" : "\n") + there.profile.name + ", at " + there.profile.profile.login + "\n" +
            there.text;
  return text;
}

std::string all_jobs_json(const std::vector<JobView>& here, const std::vector<RelayedJobs>& relayed,
                          Console& console) {
  std::vector<Json> jobs;
  for (const JobView& view : here) jobs.push_back(lockstep::to_json(view));
  for (const RelayedJobs& there : relayed) {
    try {
      const Json list = parse_json(there.text);
      jobs.insert(jobs.end(), list.begin(), list.end());
    } catch (const Json::exception& error) {
      console.note("warning: the jobs of " + there.profile.name +
                   " are not shown: " + printable(error.what()) + "\n");
    }
  }
  std::string text = "[";
  for (const Json& job : jobs)
    text += (text.size() == 1 ? "\n" : ",\n") + job.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text + "\n]\n";
}

void check_state(const std::string& state) {
  if (state.empty()) return;
  const auto names = jobs::enum_names(JobState{});
  const std::vector<std::string> known(names.begin(), names.end());
  if (std::find(known.begin(), known.end(), state) == known.end())
    throw Error(ErrorCode::invalid_option, "--state cannot be " + quote(state),
                "use one of " + join(known, ", "));
}

int watch_jobs(const std::filesystem::path& root, const JobsChoice& choice, Console& console) {
  launch::StopSignals signals("");
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  std::vector<RelayedJobs> relayed;
  std::optional<std::chrono::steady_clock::time_point> asked;
  while (!signals.token().stop_requested()) {
    if (const auto now = std::chrono::steady_clock::now(); !asked || now - *asked > kRelayedInterval) {
      relayed = read_relayed(choice, {}, console, signals.token());
      asked = now;
    }
    const JobRows here = read_jobs(root, choice, console, signals.token());
    if (signals.token().stop_requested()) break;
    const std::string text = all_jobs_text(here, relayed, console.table_width());
    console.print(console.can_redraw() ? "\033[H\033[2J" + text : text + "\n");
    never.wait_for(lock, signals.token(), kJobsInterval, [] { return false; });
  }
  return signals.signal() == SIGINT ? 0 : launch::kSignalStatus + signals.signal();
}

}  // namespace

std::vector<FieldInfo> jobs_fields() { return fields_of<JobsChoice>() + fields_of<JsonOutput>(); }

int run_jobs(const Call& call, Console& console) {
  const auto choice = settings_of<JobsChoice>(call);
  check_state(choice.state);
  const std::filesystem::path root = jobs::jobs_folder();
  if (choice.watch) return watch_jobs(root, choice, console);
  const JobRows rows = read_jobs(root, choice, console);
  if (settings_of<JsonOutput>(call).json) {
    console.print(all_jobs_json(rows.views, read_relayed(choice, {"--json"}, console), console));
  } else {
    console.print(all_jobs_text(rows, read_relayed(choice, {}, console), console.table_width()));
  }
  return 0;
}

}  // namespace lockstep::cli
