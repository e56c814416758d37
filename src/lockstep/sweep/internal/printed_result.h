// The result of another program than train, as it has printed it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/descriptor.h"

namespace lockstep::sweep {

/// A progress bar ends its lines with a carriage return.
inline constexpr std::string_view kEndsOfLines = "\r\n";

/// The lines of a text that are not empty.
std::vector<std::string_view> printed_lines(std::string_view text);

/// In the last of the lines that give a value: "NAME VALUE", "NAME=VALUE" or "NAME: VALUE". A value that is
/// too small for a number is 0, one that is too large is infinite.
struct PrintedResult {
  std::optional<double> value{};
  std::string word{};  ///< the value as it was printed; where no line gives a number, that of the last line

  /// Takes the lines that follow.
  void take(std::string_view lines, std::string_view name);
};

/// Looks for the result in a file once, from its beginning to its end, while the file grows and what was read
/// may be gone. A value, to be used with one file and one name.
class ResultReader {
 public:
  /// Reads on to this place in the file, or to the file's end. Throws io.
  void read_until(const OpenFile& file, int64_t end, std::string_view name);
  int64_t at() const { return at_; }  ///< until here it has read
  /// With what follows until the file's end; of nothing more if there is no file, and of the file alone if it
  /// has become shorter than what was read. Throws io.
  PrintedResult result_of(const std::filesystem::path& file, std::string_view name) const;

 private:
  PrintedResult result_{};  // in the lines that have ended
  std::string rest_{};      // the beginning of the last line
  int64_t at_ = 0;
};

}  // namespace lockstep::sweep
