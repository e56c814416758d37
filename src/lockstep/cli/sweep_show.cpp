#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <unistd.h>

#include "lockstep/base/csv_text.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/sweep_jobs.h"
#include "lockstep/cli/sweep_table.h"
#include "lockstep/cli/sweep_watch.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/importance.h"
#include "lockstep/sweep/shown_sweep.h"
#include "lockstep/sweep/table_reader.h"

namespace lockstep::cli {
namespace {

constexpr auto kWatchInterval = std::chrono::seconds(1);

struct SweepRowsChoice {
  std::string sort = "trial";
  std::string filter;
  int64_t limit = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Rows");
    field("sort", self.sort,
          "column to sort by: result, or the name of the metric (the best first), steps or time (the most "
          "first), note (trials with a note first), trial, state or a parameter (the least first); "
          "--sort=-COLUMN reverses the order");
    field("filter", self.filter,
          "show only trials that contain this text, or with COLUMN=TEXT, COLUMN!=TEXT, or a number after "
          "COLUMN<, >, <= or >=, such as 'state=ended result>=0.9'; several words must all fit; quotes hold "
          "words together: 'x=\"two words\"'");
    field("limit", self.limit, "show only the first N rows; 0: all", between(0, 1e9));
  };
};

struct SweepExportChoice {
  std::string csv;
  std::string json;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Files");
    field("csv", self.csv, "file to write as CSV, with a column for each parameter; -: standard output");
    field("json", self.json, "file to write as JSON; -: standard output");
  };
};

SweepRows rows_of(const Call& call) {
  const auto choice = settings_of<SweepRowsChoice>(call);
  return {.limit = choice.limit, .sort = choice.sort, .filter = choice.filter};
}

std::string as_json(const sweep::Table& table, const std::vector<const sweep::Row*>& rows) {
  std::string text = "[";
  for (const sweep::Row* row : rows)
    text += (text.size() == 1 ? "\n" : ",\n") +
            sweep::json_of(*row, table.spec.space).dump(-1, ' ', false, Json::error_handler_t::replace);
  return text + "\n]\n";
}

std::string as_csv(const sweep::Table& table) {
  std::vector<std::string> heading{"trial", "state", "result", "steps", "total_steps", "seconds"};
  for (const sweep::Parameter& parameter : table.spec.space.parameters())
    heading.push_back(csv_cell(parameter.name));
  for (const char* name : {"weights_hash", "error", "note"}) heading.emplace_back(name);
  // Its own name, unless another column has it.
  const std::string metric = csv_cell(table.spec.metric());
  if (std::ranges::find(heading, metric) == heading.end()) heading[2] = metric;
  std::string text = join(heading, ",") + "\n";
  for (const sweep::Row& row : table.rows) {
    std::vector<std::string> cells{std::to_string(row.trial),
                                   state_of(row),
                                   row.value ? shortest(*row.value) : "",
                                   std::to_string(row.step),
                                   std::to_string(row.total_steps),
                                   shortest(row.seconds)};
    for (const sweep::Parameter& parameter : table.spec.space.parameters()) {
      cells.push_back(csv_cell(text_of(row, parameter.name)));
    }
    for (const std::string& one : {row.weights_hash, row.error, row.note}) cells.push_back(csv_cell(one));
    text += join(cells, ",") + "\n";
  }
  return text;
}

void write_to(const std::string& file, const std::string& text, Console& console) {
  if (file == "-") {
    console.print(text);
  } else {
    write_file_atomic(file, text);
  }
}

// what: that no trial has.
[[noreturn]] void refuse_without_result(const sweep::Table& table, const sweep::SweepPaths& paths,
                                        const std::string& what) {
  const bool has_failed = std::ranges::any_of(
      table.rows, [](const sweep::Row& row) { return row.state == sweep::TrialState::failed; });
  const bool is_over = !table.is_going_on && is_complete(table, planned_trials(table.spec));
  throw Error(ErrorCode::not_found,
              "no trial of the sweep " + quote(paths.folder.string()) + " " +
                  (table.rows.empty() ? "has begun" : what + (is_over ? "" : " yet")),
              "lockstep sweep show " + sweep::shown_sweep(paths) +
                  (has_failed ? " --filter state=failed shows why trials failed" : " shows what they do"));
}

// A parameter that not all trials have has fewer.
void warn_of_few_trials(const std::vector<sweep::Importance>& importances, Console& console) {
  std::vector<std::string> few;
  for (const sweep::Importance& one : importances) {
    if (one.trials < sweep::kFewTrials) few.push_back(one.parameter);
  }
  if (few.empty()) return;
  console.note("lockstep: too few trials yet to trust the figures of " + join(few, ", ") + ": fewer than " +
               std::to_string(sweep::kFewTrials) + " that have it were trained in full\n");
}

std::string in_line(const std::string& text) { return text.empty() ? "" : printable(text) + "\n"; }

std::string shown_sweep(const Call& call) { return sweep::shown_sweep({call.words.front()}); }

}  // namespace

std::vector<FieldInfo> sweep_show_fields() { return fields_of<SweepRowsChoice>() + fields_of<JsonOutput>(); }
std::vector<FieldInfo> sweep_watch_fields() { return fields_of<SweepRowsChoice>(); }
std::vector<FieldInfo> sweep_importance_fields() { return fields_of<JsonOutput>(); }
std::vector<FieldInfo> sweep_export_fields() { return fields_of<SweepExportChoice>(); }

int run_sweep_show(const Call& call, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  const sweep::Table table = sweep::read_table(paths);
  const SweepRows rows = rows_of(call);
  console.print(settings_of<JsonOutput>(call).json
                    ? as_json(table, chosen_rows(table, rows))
                    : sweep_table_text(table, rows, console.table_width(), planned_trials(table.spec)) +
                          in_line(sweep::copy_text(paths)));
  return 0;
}

int run_sweep_watch(const Call& call, Console& console) {
  const SweepRows rows = rows_of(call);
  // Through a login node the terminal is that of ssh, which passes on no keys.
  const bool is_relayed = !environment_variable(jobs::kShownAs).empty();
  if (!is_relayed && console.is_terminal() && ::isatty(STDIN_FILENO) != 0)
    return watch_on_terminal({call.words.front()}, rows);
  const sweep::SweepPaths paths{call.words.front()};
  sweep::TableReader reader(paths);
  const std::string copy = in_line(sweep::copy_text(paths));
  PlannedTrials planned;
  launch::StopSignals signals("");
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  std::string shown;
  while (!signals.token().stop_requested()) {
    const sweep::Table table = reader.read();
    const int64_t count = planned.of(table.spec);
    const std::string text = sweep_table_text(table, rows, console.table_width(), count) + copy;
    if (text != shown) console.print(text + "\n");
    shown = text;
    if (!table.is_going_on && (is_complete(table, count) || !has_jobs_left(paths))) return 0;
    never.wait_for(lock, signals.token(), kWatchInterval, [] { return false; });
  }
  return signals.signal() == SIGINT ? 0 : launch::kSignalStatus + signals.signal();
}

int run_sweep_best(const Call& call, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  const sweep::Table table = sweep::read_table(paths);
  const sweep::Row* best = table.best();
  if (best == nullptr) refuse_without_result(table, paths, "has a result");
  console.note("trial " + std::to_string(best->trial) + ": " + table.spec.metric() + " " +
               sweep::result_text(*best->value) +
               (best->weights_hash.empty() ? "" : ", weights " + best->weights_hash) + "\n");
  if (best->state != sweep::TrialState::ended && best->step < best->total_steps)
    console.note("it ended after step " + with_commas(best->step) + " of " + with_commas(best->total_steps) +
                 "; the command trains all " + with_commas(best->total_steps) + "\n");
  const std::string& folder = table.spec.working_folder;
  std::error_code none;
  if (const auto from = sweep::fetched_from(paths))
    console.note("the sweep is a copy of " + quote(from->sweep) + "; run the command there, in " +
                 quote(folder) + "\n");
  else if (!folder.empty() && !std::filesystem::equivalent(folder, ".", none))
    console.note("run it in " + quote(folder) + "\n");
  console.print(command_text(paths, table, *best) + "\n");
  return 0;
}

int run_sweep_export(const Call& call, Console& console) {
  const auto choice = settings_of<SweepExportChoice>(call);
  if (choice.csv.empty() && choice.json.empty())
    throw Error(ErrorCode::invalid_option, "there is no file to write", "name one with --csv or --json");
  if (choice.csv == choice.json)
    throw Error(ErrorCode::invalid_option, "--csv and --json name the same file, " + quote(choice.csv),
                "write one of them to another file");
  const sweep::Table table = sweep::read_table({call.words.front()});
  if (!choice.csv.empty()) write_to(choice.csv, as_csv(table), console);
  if (!choice.json.empty()) write_to(choice.json, as_json(table, chosen_rows(table, {})), console);
  return 0;
}

int run_sweep_importance(const Call& call, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  const sweep::Table table = sweep::read_table(paths);
  const std::vector<sweep::Importance> importances = sweep::importances(table);
  if (settings_of<JsonOutput>(call).json) {
    Json json = Json::array();
    for (const sweep::Importance& one : importances) json.push_back(to_json(one));
    console.print(json.dump(2) + "\n");
    return 0;
  }
  if (importances.empty()) refuse_without_result(table, paths, "was trained in full");
  if (std::ranges::all_of(importances, [](const sweep::Importance& one) { return one.divergence == 0; }))
    console.note(
        "lockstep: the trials that were trained in full are too few, or too alike, to tell which "
        "parameter mattered\n");
  else
    warn_of_few_trials(importances, console);
  std::vector<std::vector<std::string>> cells{{"parameter", "importance", "divergence", "trials"}};
  for (const sweep::Importance& one : importances)
    cells.push_back({one.parameter, fixed(100 * one.share, 1) + " %", fixed(one.divergence, 4),
                     std::to_string(one.trials)});
  console.print(in_columns_within(console.table_width(), std::move(cells), "lrrr"));
  return 0;
}

int run_sweep_stop(const Call& call, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  const sweep::Table table = sweep::read_table(paths);
  if (call.words.size() == 1) {
    ask_sweep_to_stop(paths);
    console.print("asked the sweep to stop; lockstep sweep --resume --output " + shown_sweep(call) +
                  " continues it\n");
    return 0;
  }
  const int64_t trial = trial_of(call.words[1]);
  sweep::check_is_no_copy(paths, "stop SWEEP " + std::to_string(trial));
  sweep::check_is_trial(paths, trial);
  if (!table.can_end(trial))
    throw Error(ErrorCode::not_found, "trial " + std::to_string(trial) + " is not running",
                "lockstep sweep show " + shown_sweep(call) + " --filter state=running lists those that are");
  sweep::ask_to_stop(paths, trial);
  console.print("asked trial " + std::to_string(trial) + " to end with the result that it has\n");
  return 0;
}

int run_sweep_restart(const Call& call, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  const int64_t trial = trial_of(call.words[1]);
  const bool now = sweep::restart_now_or_ask(paths, trial);
  console.print("trial " + std::to_string(trial) + " starts again" +
                (now ? " with lockstep sweep --resume --output " + shown_sweep(call) : "") + "\n");
  return 0;
}

int run_sweep_annotate(const Call& call, Console&) {
  const std::vector<std::string> text(call.words.begin() + 2, call.words.end());
  sweep::annotate({call.words[0]}, trial_of(call.words[1]), join(text, " "));
  return 0;
}

}  // namespace lockstep::cli
