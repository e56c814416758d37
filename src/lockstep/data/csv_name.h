// The names of CSV files, which are sequences or tables of images, and of other tables.
#pragma once

#include <string_view>

namespace lockstep::data {

/// Whether a name, a path or an address has the ending of a CSV file, in upper or lower case.
bool is_csv_name(std::string_view name);

/// Whether a name, a path or an address has an ending that a table of images may have: .csv, .tsv or .txt, in
/// upper or lower case.
bool is_table_name(std::string_view name);

}  // namespace lockstep::data
