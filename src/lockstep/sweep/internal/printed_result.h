// The result of another program than train, as it has printed it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  std::string line{};  ///< in which it stands, or the beginning of a very long one

  /// Takes the lines that follow.
  void take(std::string_view lines, std::string_view name);
};

/// Of all that a file has; of none if there is no file.
PrintedResult printed_result(const std::filesystem::path& file, std::string_view name);

}  // namespace lockstep::sweep
