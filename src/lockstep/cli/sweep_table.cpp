#include "lockstep/cli/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/sweep_checks.h"
#include "lockstep/cli/sweep_filter.h"
#include "lockstep/sweep/engine.h"

namespace lockstep::cli {
namespace {

using sweep::Row;
using sweep::TrialState;

constexpr size_t kRowsAtEnd = 10;

std::string steps_text(const Row& row) {
  if (row.step == 0 && row.total_steps == 0) return "-";
  return with_commas(row.step) + (row.total_steps > 0 ? "/" + with_commas(row.total_steps) : "");
}

double number_of(const Row& row, const std::string& column) {
  if (column == "steps") return -static_cast<double>(row.step);
  if (column == "time") return -row.seconds;
  if (column == "trial") return static_cast<double>(row.trial);
  return 0;
}

// Numbers by their value, before texts.
auto sort_key(const std::string& text) {
  const auto number = parse_number<double>(text);
  const bool is_number = number && !std::isnan(*number);
  return std::tuple(!is_number && !text.empty(), is_number ? *number : -HUGE_VAL, text);
}

}  // namespace

int64_t trial_of(const std::string& word) {
  const auto number = parse_number<int64_t>(word);
  if (!number || *number < 0)
    throw Error(ErrorCode::invalid_option, quote(word) + " is no number of a trial",
                "lockstep sweep show lists trials with their numbers");
  return *number;
}

// Four digits are enough to tell trials apart.
std::string short_number(const std::string& text) {
  const auto number = parse_number<double>(text);
  if (!number || text.size() <= 8) return text;
  return figure_cell(*number);
}

std::vector<const Row*> chosen_rows(const sweep::Table& table, const SweepRows& asked) {
  SweepRows choice = asked;
  const bool is_reversed = choice.sort.starts_with("-");
  if (is_reversed) choice.sort.erase(0, 1);
  choice.sort = sweep_column(table, choice.sort);
  const SweepFilter filter(table, choice.filter);
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) {
    if (filter.fits(row)) rows.push_back(&row);
  }
  const bool maximize = table.spec.maximizes();
  const bool by_number = choice.sort == "trial" || choice.sort == "steps" || choice.sort == "time";
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) {
    if (choice.sort == "result") return rank_of(*a, maximize) < rank_of(*b, maximize);
    if (choice.sort == "state") return a->state < b->state;
    if (choice.sort == "note") return a->note > b->note;
    if (by_number) return number_of(*a, choice.sort) < number_of(*b, choice.sort);
    return sort_key(text_of(*a, choice.sort)) < sort_key(text_of(*b, choice.sort));
  });
  if (is_reversed) std::reverse(rows.begin(), rows.end());
  if (choice.sort == "result")  // a trial without one is neither the best nor the worst
    std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) {
      return rank_of(*a, maximize).first < rank_of(*b, maximize).first;
    });
  if (choice.limit > 0 && rows.size() > static_cast<size_t>(choice.limit))
    rows.resize(static_cast<size_t>(choice.limit));
  return rows;
}

namespace {

struct Cells {
  std::vector<std::vector<std::string>> rows;  // the heading first
  std::string sides;
};

Cells cells_of(const sweep::Table& table, const std::vector<const Row*>& rows) {
  Cells cells{{{"trial", "state", table.spec.metric(), "steps", "time"}}, "rlrrr"};
  for (const sweep::Parameter& parameter : table.spec.space.parameters()) {
    cells.rows.front().push_back(parameter.name);
    cells.sides += parameter.is_number() ? 'r' : 'l';
  }
  const bool has_notes = std::any_of(
      rows.begin(), rows.end(), [](const Row* row) { return !row->note.empty() || !row->error.empty(); });
  if (has_notes) {
    cells.rows.front().emplace_back("note");
    cells.sides += 'l';
  }
  const Row* best = table.best();
  for (const Row* row : rows) {
    std::vector<std::string> line{std::to_string(row->trial), state_of(*row) + (row == best ? " *" : ""),
                                  row->value ? sweep::result_text(*row->value) : "-", steps_text(*row),
                                  row->seconds > 0 ? as_duration(row->seconds) : "-"};
    for (const sweep::Parameter& parameter : table.spec.space.parameters()) {
      const std::string value = text_of(*row, parameter.name);
      line.push_back(value.empty() ? "-" : short_number(value));
    }
    if (has_notes)
      line.push_back(row->error.empty()
                         ? row->note
                         : first_line(row->error) + (row->note.empty() ? "" : "; " + row->note));
    cells.rows.push_back(std::move(line));
  }
  return cells;
}

}  // namespace

int64_t planned_trials(const sweep::SweepSpec& spec) {
  return sweep::Search(spec.space, spec.search()).count();
}

int64_t PlannedTrials::of(const sweep::SweepSpec& spec) {
  std::string search = spec.space.to_json().dump() + to_json(spec.options).dump();
  if (search != search_) {
    count_ = planned_trials(spec);
    search_ = std::move(search);
  }
  return count_;
}

bool is_complete(const sweep::Table& table, int64_t planned) {
  return static_cast<int64_t>(table.rows.size()) >= planned &&
         std::all_of(table.rows.begin(), table.rows.end(),
                     [](const Row& row) { return sweep::is_over(row.state); });
}

std::string sweep_counts_text(const sweep::Table& table, int64_t planned) {
  std::map<TrialState, int64_t> counts;
  for (const Row& row : table.rows) ++counts[row.state];
  std::vector<std::string> words;
  for (const auto& [state, count] : counts)
    words.push_back(std::to_string(count) + " " + enum_names(state)[static_cast<size_t>(state)]);
  const auto begun = static_cast<int64_t>(table.rows.size());
  return (planned > begun ? std::to_string(begun) + " of " : "") + std::to_string(std::max(begun, planned)) +
         (std::max(begun, planned) == 1 ? " trial" : " trials") + (words.empty() ? "" : ": ") +
         join(words, ", ") + (table.is_going_on ? "; the sweep goes on" : "");
}

std::string sweep_rows_text(const sweep::Table& table, const std::vector<const Row*>& rows,
                            int64_t left_out) {
  Cells cells = cells_of(table, rows);
  const auto most = static_cast<int64_t>(cells.sides.size()) - 2;  // the first and the last one stay
  const auto count = static_cast<std::ptrdiff_t>(std::min(left_out, most));
  cells.sides.erase(1, static_cast<size_t>(count));
  for (auto& row : cells.rows) row.erase(row.begin() + 1, row.begin() + 1 + count);
  return in_columns(std::move(cells.rows), cells.sides);
}

std::string sweep_table_text(const sweep::Table& table, const SweepRows& choice, int width, int64_t planned) {
  const std::vector<const Row*> rows = chosen_rows(table, choice);
  Cells cells = cells_of(table, rows);
  const std::string mark = not_reproducible_text(table.spec);
  const bool fits_none = rows.empty() && !table.rows.empty();
  const bool shows_best = std::ranges::find(rows, table.best()) != rows.end();
  const bool shows_some = !choice.filter.empty() && !rows.empty() && rows.size() < table.rows.size();
  return in_columns_within(width, std::move(cells.rows), cells.sides) + "\n" +
         (fits_none ? "no trial fits the filter " + quote(choice.filter) + "\n" : "") +
         (shows_some ? std::to_string(rows.size()) + " shown of " : "") + sweep_counts_text(table, planned) +
         (shows_best ? "; * is the best" : "") + "\n" + mark + (mark.empty() ? "" : "\n");
}

std::string best_rows_text(const sweep::Table& table, const std::string& folder, int width) {
  std::string text =
      sweep_table_text(table, {.limit = kRowsAtEnd, .sort = "result"}, width, planned_trials(table.spec));
  if (table.rows.size() > kRowsAtEnd)
    text += "the best " + std::to_string(kRowsAtEnd) + " of " + std::to_string(table.rows.size()) +
            "; lockstep sweep show " + shell_word(folder) + " lists all\n";
  return text;
}

std::string command_text(const sweep::SweepPaths& paths, const sweep::Table& table, const Row& row) {
  std::string text = table.spec.trains() ? "lockstep" : "";
  std::vector<std::string> words = sweep::command_of(paths, table.spec, row.trial, row.parameters);
  if (depends_on_workers(table.spec)) {
    words.emplace_back("--workers");
    words.push_back(std::to_string(table.spec.options.workers));
  }
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace lockstep::cli
