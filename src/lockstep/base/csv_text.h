// Text of CSV files (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A cell, in quotes where it needs them.
std::string csv_cell(std::string_view text);

/// The rows of a text whose cells csv_cell() made. Lines may end as on Windows. Throws corrupt_data, naming
/// the row, for a quote without an end, or with something behind it.
std::vector<std::vector<std::string>> csv_rows(std::string_view text);

}  // namespace lockstep
