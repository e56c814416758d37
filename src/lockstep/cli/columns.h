// Tables of words in aligned columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cli {

/// Pads the cells of each column to one width, with two spaces before each column. Text is left-aligned and
/// numbers are right-aligned. Control characters are masked, so a cell cannot steer the terminal.
///   sides  'l' or 'r' for each column
std::string in_columns(std::vector<std::vector<std::string>> rows, const std::string& sides);

/// The same for a terminal of `width` columns. A wider table is split into several tables, one below the
/// other, each with the first column. A text column at the right end is broken between words. width 0:
/// nothing is split or broken.
std::string in_columns_within(int width, std::vector<std::vector<std::string>> rows,
                              const std::string& sides);

/// The name of a class for a column of a table: of 40 columns at most, with "…" where something is left out.
std::string name_cell(const std::string& name);

/// Four significant digits: "0.1234".
std::string figure_cell(double value);

/// "20x24x24"; "1" for a single number.
std::string sizes_cell(std::span<const int64_t> sizes);

}  // namespace lockstep::cli
