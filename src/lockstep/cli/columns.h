// Rows of words under each other.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// Pads the cells of each column to one width, two spaces between columns, two before the first. Text is
/// left-aligned and numbers right. What could steer the terminal is masked.
///   sides  'l' or 'r' for each column
std::string in_columns(std::vector<std::vector<std::string>> rows, const std::string& sides);

/// The same on a terminal of `width` columns: a wider table is cut into several below each other, each with
/// the first column, and a column of text at the right end of one is broken between words. width 0: nothing
/// is.
std::string in_columns_within(int width, std::vector<std::vector<std::string>> rows,
                              const std::string& sides);

}  // namespace lockstep::cli
