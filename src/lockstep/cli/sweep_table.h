// The table of a sweep as text.
#pragma once

#include <string>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

struct SweepRows {
  int64_t limit = 0;           ///< 0: all
  std::string sort = "trial";  ///< trial, state, result, steps, time, or the name of a parameter
  std::string filter{};        ///< words that must all be in a row, or COLUMN=TEXT
};

/// Rows are sorted with the best or largest first, except by trial. Throws invalid_option for an unknown
/// column.
std::vector<const sweep::Row*> chosen_rows(const sweep::Table& table, const SweepRows& choice);

/// width 0: of no terminal.
std::string sweep_table_text(const sweep::Table& table, const SweepRows& choice, int width);

/// The words of train that give the same weights: without what is of the sweep.
std::string command_text(const sweep::Table& table, const sweep::Row& row);

}  // namespace lockstep::cli
