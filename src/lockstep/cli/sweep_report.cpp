#include "lockstep/cli/sweep_report.h"

#include <algorithm>
#include <functional>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/report.h"
#include "lockstep/cli/sweep_table.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/follower.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"
#include "lockstep/record/trial_folder.h"
#include "lockstep/view/sweep_page.h"

namespace lockstep::cli {
namespace {

constexpr size_t kChosen = 5;
constexpr size_t kMostPoints = 60;  // of a trial's training curve
constexpr size_t kMostCells =
    150'000;  // of the matrices of trials that are not compared, with heads; 1,000 of 10 classes

// The trials that are asked for, or the best that have a result.
std::vector<const sweep::Row*> chosen_trials(const sweep::SweepPaths& paths, const sweep::Table& table,
                                             const std::vector<std::string>& asked) {
  std::vector<const sweep::Row*> rows;
  for (const std::string& word : asked) rows.push_back(&sweep::row_of(table, paths, trial_of(word)));
  if (!asked.empty()) return rows;
  for (const sweep::Row* row : chosen_rows(table, {.limit = kChosen, .sort = "result"})) {
    if (row->value) rows.push_back(row);
  }
  return rows;
}

// Adds a value, or replaces what an attempt before a kill has logged of its step and later ones.
void add_point(view::TrialCurve& curve, int64_t step, double value) {
  while (!curve.points.empty() && curve.points.back().first >= step) curve.points.pop_back();
  if (std::isfinite(value)) curve.points.emplace_back(step, value);
}

// At most kMostPoints means of neighbours: single steps vary much.
view::TrialCurve smoothed(const view::TrialCurve& curve) {
  view::TrialCurve smooth{.trial = curve.trial};
  const size_t together = curve.points.size() / kMostPoints + 1;
  for (size_t at = 0; at < curve.points.size(); at += together) {
    const size_t end = std::min(curve.points.size(), at + together);
    double sum = 0;
    for (size_t i = at; i < end; ++i) sum += curve.points[i].second;
    smooth.points.emplace_back(curve.points[end - 1].first, sum / static_cast<double>(end - at));
  }
  return smooth;
}

// One trial with damaged events must not cost the page of the others. Returns whether they could be read.
bool try_reading(int64_t trial, Console& console, const std::function<void()>& read_events_of_trial) {
  try {
    read_events_of_trial();
    return true;
  } catch (const Error& error) {
    console.note("lockstep: the report leaves out the curves of trial " + std::to_string(trial) + ": " +
                 printable(error.message()) + "\n");
    return false;
  }
}

// Accuracies or losses of all trials: on held-out samples, or while training where no trial was validated
// twice. Returns the trials whose events cannot be read.
std::set<int64_t> add_curves(const sweep::SweepPaths& paths, view::SweepPage& page, Console& console) {
  const bool is_loss = lower(page.table.spec.metric()).find("loss") != std::string::npos;
  const std::string name = is_loss ? "loss" : "accuracy";
  std::vector<view::TrialCurve> held_out, training;
  std::set<int64_t> unreadable;
  bool is_curve = false;
  for (const sweep::Row& row : page.table.rows) {
    if (!record::holds_run(paths.trial(row.trial))) continue;
    view::TrialCurve validations{.trial = row.trial}, steps = validations;
    const auto take = [&](const record::Event& event) {
      if (event.kind == "validation") add_point(validations, event.step, record::number(event, name));
      if (event.kind == "step") add_point(steps, event.step, record::number(event, name));
    };
    if (!try_reading(row.trial, console, [&] { record::Follower(paths.trial(row.trial)).read_all(take); })) {
      unreadable.insert(row.trial);
      continue;
    }
    is_curve = is_curve || validations.points.size() > 1;
    if (!validations.points.empty()) held_out.push_back(std::move(validations));
    if (!steps.points.empty()) training.push_back(smoothed(steps));
  }
  page.curve_name = is_curve ? "held-out " + name : "training " + name;
  page.curves = is_curve ? std::move(held_out) : std::move(training);
  return unreadable;
}

// Of the trials that are not compared.
void add_confusions(const sweep::SweepPaths& paths, view::SweepPage& page, Console& console) {
  size_t cells = 0;
  for (const sweep::Row* row : chosen_rows(page.table, {.sort = "result"})) {
    if (std::ranges::find(page.chosen, row->trial, &view::ChosenTrial::trial) != page.chosen.end()) continue;
    const std::filesystem::path run = paths.trial(row->trial);
    std::error_code none;
    if (page.confusions_left_out > 0) {
      page.confusions_left_out += std::filesystem::exists(record::RunPaths{run}.confusion(), none);
      continue;
    }
    auto kept = kept_confusion(run, console);
    if (!kept) continue;
    cells += (kept->classes.size() + 2) * (kept->classes.size() + 2);
    if (cells > kMostCells) {
      ++page.confusions_left_out;
    } else {
      page.confusions.push_back({row->trial, std::move(*kept)});
    }
  }
}

view::ChosenTrial chosen_trial(const sweep::SweepPaths& paths, const sweep::Table& table,
                               const sweep::Row& row) {
  view::ChosenTrial chosen{.trial = row.trial, .command = command_text(paths, table, row)};
  chosen.report.run = paths.trial(row.trial).string();
  return chosen;
}

// The weights of the best validation, where the results are of it; else those after the last step. A trial
// that was never validated has only these.
std::string weights_of_result(const sweep::SweepSpec& spec, const record::RunPaths& run) {
  const std::string metric = spec.metric();
  std::error_code none;
  const bool is_of_best = metric == "best_accuracy" || metric == "result";
  return is_of_best && std::filesystem::exists(run.best_weights(), none) ? "best" : "last";
}

std::string why_no_weights(const sweep::SweepPaths& paths, const sweep::Row& row) {
  if (!sweep::is_over(row.state)) return "the trial has no weights yet";
  if (row.state == sweep::TrialState::failed) return "the trial has no weights: it failed";
  return record::removed_weights(paths.trial(row.trial), paths.folder).message();
}

}  // namespace

bool is_sweep(const std::filesystem::path& folder) {
  std::error_code none;
  return std::filesystem::exists(sweep::SweepPaths{folder}.spec(), none);
}

std::filesystem::path write_sweep_report(const Call& call, const train::Options& options, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  auto asked = settings_of<ReportOptions>(call);
  view::SweepPage page{.sweep = paths.folder.string(), .table = sweep::read_table(paths)};
  const auto chosen = chosen_trials(paths, page.table, asked.trials);
  page.importances = sweep::importances(page.table);
  page.parallel = sweep::parallel_coordinates(page.table);
  const std::set<int64_t> unreadable = add_curves(paths, page, console);
  for (const sweep::Row* row : chosen) {
    view::ChosenTrial one = chosen_trial(paths, page.table, *row);
    const record::RunPaths run{paths.trial(row->trial)};
    std::error_code none;
    const auto read = [&] { one.report.events = record::read_events(run.folder); };
    const bool is_run = record::holds_run(run.folder);
    if (!is_run && page.table.spec.trains()) {
      one.report.not_judged = "the run folder of the trial is not there";
    } else if (is_run && (unreadable.contains(row->trial) || !try_reading(row->trial, console, read))) {
      one.report.not_judged = "the events of the trial cannot be read";
    } else if (std::filesystem::exists(run.weights(), none)) {
      if (!call.text_of("weights")) asked.weights = weights_of_result(page.table.spec, run);
      add_judgement(one.report, {.run_folder = run.folder, .asked = asked, .options = options}, console);
    } else if (page.table.spec.trains()) {
      one.report.not_judged = why_no_weights(paths, *row);
    }
    if (!one.report.judged && !one.report.kept) one.report.kept = kept_confusion(run.folder, console);
    page.chosen.push_back(std::move(one));
  }
  add_confusions(paths, page, console);
  const std::filesystem::path file =
      asked.output.empty() ? paths.report() : std::filesystem::path(asked.output);
  write_file_atomic(file, view::sweep_page(page));
  return file;
}

}  // namespace lockstep::cli
