// Reads lines of measured steps fast. A run writes millions of them, and nearly all have the same keys.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::record {

/// What lines of one form contain.
struct MeasuredKeys {
  std::string kind;                 ///< "step", "validation" or "average"
  std::vector<std::string> names;   ///< the numbers among the values, in their order
  std::vector<std::string> others;  ///< values that are no numbers
};

/// Whole lines of a log, one after the other: lines of one form, or, without keys, lines for from_line.
struct MeasuredLines {
  /// Of a row, before the values.
  enum Place : size_t { step, epoch, time, places };

  std::string_view text;  ///< with the last line's end
  std::shared_ptr<const MeasuredKeys> keys{};
  std::vector<double> numbers{};  ///< a row for each line: step, epoch, time, then keys->names
  std::string_view last{};        ///< the last line, without its end

  size_t row_size() const { return places + keys->names.size(); }
  size_t rows() const { return numbers.size() / row_size(); }
};

/// All of `text`, in its order. A line has keys only if from_line reads the same from it: a line that is
/// damaged or in any way unusual has none. Large texts are read by several threads.
///   text  ends with the end of a line; outlives the result
std::vector<MeasuredLines> read_measured_lines(std::string_view text);

}  // namespace lockstep::record
