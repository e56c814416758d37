#include "lockstep/cli/run_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/row_limit.h"

namespace lockstep::cli {
namespace {

using record::RunState;
using record::RunSummary;

constexpr int kBetweenColumns = 2;
constexpr int kLeastReason = 24;  // narrower than that, a reason is broken into too many lines
constexpr int kLeastName = 12;
constexpr int kMostData = 24;
// What a narrow terminal does without, first to last.
constexpr std::array kLessNeeded{RunColumn::data, RunColumn::size,  RunColumn::network,
                                 RunColumn::time, RunColumn::steps, RunColumn::age};

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// Its end says more than its beginning.
std::string shortened_path(const std::string& text, int most) {
  const int width = width_of(text);
  if (width <= most) return text;
  size_t at = 0;
  for (int left_out = 0; at < text.size() && left_out < width - most + 1; ++left_out) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  }
  return "…" + text.substr(at);
}

std::string steps_text(const RunSummary& run) {
  if (!run.step) return "-";
  return with_commas(*run.step) + (run.total_steps ? "/" + with_commas(*run.total_steps) : "");
}

bool goes_on(const RunSummary& run) {
  return run.state == RunState::running || run.state == RunState::stopping || run.state == RunState::queued;
}

// Why a run that should have gone on does not.
std::string shown_reason(const RunSummary& run) {
  return run.state == RunState::ended || run.reason == state_word(run) ? "" : run.reason;
}

std::string cell(const RunSummary& run, RunColumn column, double now) {
  switch (column) {
    case RunColumn::run:
      return run.folder;
    case RunColumn::state:
      return state_word(run);
    case RunColumn::network:
      return or_dash(run.network);
    case RunColumn::data:
      return or_dash(run.data);
    case RunColumn::accuracy:
      return run.accuracy ? fixed(*run.accuracy, 4) : "-";
    case RunColumn::steps:
      return steps_text(run);
    case RunColumn::time:
      return run.seconds ? as_duration(*run.seconds) : "-";
    case RunColumn::age:
      return run.last_sign ? age_text(std::max(0.0, now - *run.last_sign)) : "-";
    case RunColumn::size:
      return as_bytes(run.bytes);
  }
  return "";
}

bool is_number(RunColumn column) { return column >= RunColumn::accuracy; }

double value_of(const RunSummary& run, RunColumn column) {
  constexpr double kLeast = std::numeric_limits<double>::lowest();
  switch (column) {
    case RunColumn::accuracy:
      return run.accuracy.value_or(kLeast);
    case RunColumn::steps:
      return run.step ? static_cast<double>(*run.step) : kLeast;
    case RunColumn::time:
      return run.seconds.value_or(kLeast);
    case RunColumn::size:
      return static_cast<double>(run.bytes);
    default:
      return run.last_sign.value_or(kLeast);
  }
}

struct Condition {
  std::optional<RunColumn> column;
  std::string text;
};

Condition condition_of(const std::string& word) {
  const size_t sign = word.find('=');
  if (sign == std::string::npos) return {std::nullopt, lower(word)};
  const std::string name = lower(word.substr(0, sign));
  const auto names = enum_names(RunColumn{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i] && !is_number(static_cast<RunColumn>(i)))
      return {static_cast<RunColumn>(i), lower(word.substr(sign + 1))};
  }
  throw Error(ErrorCode::invalid_option, "--filter cannot choose by " + quote(word.substr(0, sign)),
              "use run=TEXT, state=STATE, network=TEXT, data=TEXT, or a text that any of them contains");
}

bool fits(const RunSummary& run, const Condition& condition) {
  if (condition.column == RunColumn::state) return state_word(run) == condition.text;
  const auto contains = [&](const std::string& text) {
    return lower(text).find(condition.text) != std::string::npos;
  };
  if (condition.column) return contains(cell(run, *condition.column, 0));
  return contains(run.folder) || contains(run.network) || contains(run.data) || contains(run.reason) ||
         contains(state_word(run));
}

// Columns of a table that fits a width.
class Fitted {
 public:
  Fitted(const std::vector<RunSummary>& runs, double now, bool with_heading) {
    for (size_t i = 0; i < enum_names(RunColumn{}).size(); ++i) columns_.push_back(static_cast<RunColumn>(i));
    for (const RunColumn column : columns_) {
      auto& cells = cells_[column];
      if (with_heading) cells.emplace_back(enum_names(column)[static_cast<size_t>(column)]);
      for (const RunSummary& run : runs) cells.push_back(cell(run, column, now));
    }
    if (with_heading) reasons_.emplace_back("reason");
    for (const RunSummary& run : runs) {
      reasons_.push_back(shown_reason(run));
      has_reasons_ = has_reasons_ || !reasons_.back().empty();
    }
  }

  void fit(int width) {
    for (std::string& text : cells_[RunColumn::data]) text = shortened_path(text, kMostData);
    for (const RunColumn column : kLessNeeded) {
      if (needed() > width) std::erase(columns_, column);
    }
    const int too_wide = needed() - width;
    if (too_wide <= 0) return;
    const int most = std::max(kLeastName, width_of_column(RunColumn::run) - too_wide);
    for (std::string& text : cells_[RunColumn::run]) text = shortened_path(text, most);
  }

  std::string text(int width) const {
    std::string sides;
    std::vector<std::vector<std::string>> rows(reasons_.size());
    for (const RunColumn column : columns_) {
      sides += is_number(column) ? 'r' : 'l';
      for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(cells_.at(column)[i]);
    }
    if (has_reasons_) {
      sides += 'l';
      for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(reasons_[i]);
    }
    return in_columns_within(width, std::move(rows), sides);
  }

 private:
  int width_of_column(RunColumn column) const {
    int width = 0;
    for (const std::string& text : cells_.at(column)) width = std::max(width, width_of(text));
    return width;
  }

  int needed() const {
    int width = has_reasons_ ? kBetweenColumns : 0;
    int of_reasons = 0;
    for (const std::string& reason : reasons_) of_reasons = std::max(of_reasons, width_of(reason));
    if (has_reasons_) width += std::min(of_reasons, kLeastReason);
    for (const RunColumn column : columns_) width += kBetweenColumns + width_of_column(column);
    return width;
  }

  std::vector<RunColumn> columns_;
  std::map<RunColumn, std::vector<std::string>> cells_;
  std::vector<std::string> reasons_;
  bool has_reasons_ = false;
};

}  // namespace

std::string state_word(const RunSummary& run) {
  return run.state ? enum_names(*run.state)[static_cast<size_t>(*run.state)] : "unreadable";
}

std::string age_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86'400;
  const auto whole = [](double value) { return std::to_string(static_cast<int64_t>(value)); };
  if (!(seconds < 1e12)) return "?";
  if (seconds < kMinute) return whole(seconds) + " s";
  if (seconds < kHour) return whole(seconds / kMinute) + " min";
  if (seconds < 2 * kDay) return whole(seconds / kHour) + " h";
  return whole(seconds / kDay) + " days";
}

void sort_runs(std::vector<RunSummary>& runs, RunColumn column) {
  std::stable_sort(runs.begin(), runs.end(), [&](const RunSummary& a, const RunSummary& b) {
    if (!is_number(column)) return cell(a, column, 0) < cell(b, column, 0);
    // The last signs of runs that go on change places all the time.
    if (column == RunColumn::age && goes_on(a) != goes_on(b)) return goes_on(b);
    if (column == RunColumn::age && goes_on(a)) return a.started.value_or(0) < b.started.value_or(0);
    return value_of(a, column) < value_of(b, column);
  });
}

void filter_runs(std::vector<RunSummary>& runs, const std::string& filter) {
  std::vector<Condition> conditions;
  for (const std::string& word : split(filter, ' ')) {
    if (!word.empty()) conditions.push_back(condition_of(word));
  }
  std::erase_if(runs, [&](const RunSummary& run) {
    return !std::all_of(conditions.begin(), conditions.end(),
                        [&](const Condition& one) { return fits(run, one); });
  });
}

std::string run_table(const std::vector<RunSummary>& runs, double now, int width) {
  Fitted table(runs, now, /*with_heading=*/true);
  if (width > 0) table.fit(width);
  return table.text(width);
}

std::string run_lines(const std::vector<RunSummary>& runs, double now) {
  return Fitted(runs, now, /*with_heading=*/false).text(0);
}

std::string count_of(const std::vector<RunSummary>& runs, size_t total) {
  std::map<std::optional<RunState>, std::pair<std::string, int64_t>> counts;
  int64_t bytes = 0;
  for (const RunSummary& run : runs) {
    auto& [word, count] = counts[run.state];
    word = state_word(run);
    ++count;
    bytes += run.bytes;
  }
  std::vector<std::string> parts;
  for (const auto& [state, counted] : counts)
    parts.push_back(with_commas(counted.second) + " " + counted.first);
  return count_line(runs.size(), total, "run", join(parts, ", ") + "; " + as_bytes(bytes));
}

}  // namespace lockstep::cli
