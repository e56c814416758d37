// The option --limit of lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cli {

/// Keeps the last `limit` rows; 0: all. Gives how many there were.
template <class Row>
size_t keep_last(std::vector<Row>& rows, int64_t limit) {
  const size_t total = rows.size();
  if (limit > 0 && total > static_cast<size_t>(limit))
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(limit));
  return total;
}

/// The line below a list: "12 runs: 10 ended, 2 failed", and "3 of 12 runs: 3 ended; --limit 0 shows all" if
/// not all rows are shown.
///   noun  "run"
std::string count_line(size_t shown, size_t total, const std::string& noun, const std::string& details);

}  // namespace lockstep::cli
