// Runs as rows of a table, and what can be asked of the rows.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/record/summary.h"

namespace lockstep::cli {

enum class RunColumn { run, state, network, data, accuracy, steps, time, age, size };
constexpr std::array<const char*, 9> enum_names(RunColumn) {
  return {"run", "state", "network", "data", "accuracy", "steps", "time", "age", "size"};
}

/// The state's name; "unreadable" without one.
std::string state_word(const record::RunSummary& run);

/// Seconds as the one unit that says most: "3 s", "5 min", "2 h", "12 days".
std::string age_text(double seconds);

/// Smallest first; by age: the oldest first, so that the newest are next to the prompt. Runs without a value
/// come first, and runs of one value keep their order.
void sort_runs(std::vector<record::RunSummary>& runs, RunColumn column);

/// Keeps the runs that fit every word of `filter`: COLUMN=TEXT, where a state must be the text and others
/// must contain it, or a text in any column. Throws invalid_option for an unknown column.
void filter_runs(std::vector<record::RunSummary>& runs, const std::string& filter);

/// A heading, and a line for each run. For a terminal of `width` columns, columns are left out and cells are
/// shortened until it fits; 0: everything is there.
///   now  seconds since 1970
std::string run_table(const std::vector<record::RunSummary>& runs, double now, int width);

/// The lines without the heading.
std::string run_lines(const std::vector<record::RunSummary>& runs, double now);

/// "12 runs: 1 running, 10 ended, 1 failed; 1.2 GB", as a line.
///   total  how many there are with those that --limit leaves out
std::string count_of(const std::vector<record::RunSummary>& runs, size_t total);

}  // namespace lockstep::cli
