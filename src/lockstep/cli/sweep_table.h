// The table of a sweep as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

struct SweepRows {
  int64_t limit = 0;  ///< 0: all
  std::string sort =
      "trial";           ///< trial, state, result, steps, time, note, or a parameter; reversed after a minus
  std::string filter{};  ///< see SweepFilter
};

/// The number of a trial as a user writes it. Throws invalid_option for a word that is none.
int64_t trial_of(const std::string& word);

/// Rows are sorted by result with the best first, by steps and time with the most first, by others with the
/// least first. Those without a result come last, also if the order by result is reversed. Throws
/// invalid_option for an unknown column, and as SweepFilter.
std::vector<const sweep::Row*> chosen_rows(const sweep::Table& table, const SweepRows& choice);

/// width 0: of no terminal; planned: trials of the sweep, with those that have not begun.
std::string sweep_table_text(const sweep::Table& table, const SweepRows& choice, int width, int64_t planned);

/// The best rows, as a sweep shows them at its end; where others are left out, that, and which command lists
/// them.
std::string best_rows_text(const sweep::Table& table, const std::string& folder, int width);

/// A long number with four significant digits; other texts as they are.
std::string short_number(const std::string& text);

/// A heading, and a line for each of the rows, as wide as they are.
///   left_out  columns behind the first that are not shown; the last one always is
std::string sweep_rows_text(const sweep::Table& table, const std::vector<const sweep::Row*>& rows,
                            int64_t left_out = 0);

/// How many trials the sweep is to have, with those that have not begun. All points of a grid are made for
/// it.
int64_t planned_trials(const sweep::SweepSpec& spec);

/// The same for a table that is shown again and again: counts only if the search is another one. One thread.
class PlannedTrials {
 public:
  int64_t of(const sweep::SweepSpec& spec);

 private:
  std::string search_;  // whose trials were counted, as JSON
  int64_t count_ = 0;
};

/// Whether all planned trials have an end.
bool is_complete(const sweep::Table& table, int64_t planned);

/// "8 of 20 trials: 2 running, 6 ended; the sweep goes on", "20 trials: 20 ended"
///   planned  trials of the sweep, with those that have not begun
std::string sweep_counts_text(const sweep::Table& table, int64_t planned);

/// The words of train that give the same weights: without what is of the sweep.
std::string command_text(const sweep::SweepPaths& paths, const sweep::Table& table, const sweep::Row& row);

}  // namespace lockstep::cli
