#include "lockstep/sweep/internal/printed_result.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <system_error>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/text.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kMostOfLine = 4096;  // that is kept; the value stands at its beginning

std::optional<double> number_of_word(std::string_view word) {
  if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
  // 1,5 is another number than 1, whichever it is.
  const size_t end = std::min(word.find_first_of(",;"), word.size());
  const std::string_view text = word.substr(0, end), after = word.substr(end);
  const bool goes_on = after.size() > 1 && after[0] == ',' && '0' <= after[1] && after[1] <= '9';
  if (goes_on && parse_number<int64_t>(text)) return std::nullopt;
  double value = 0;
  const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::invalid_argument || last != text.data() + text.size()) return std::nullopt;
  return code == std::errc() ? value : std::strtod(std::string(text).c_str(), nullptr);
}

}  // namespace

std::vector<std::string_view> printed_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(kEndsOfLines, at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void PrintedResult::take(std::string_view lines, std::string_view name) {
  for (const std::string_view one : printed_lines(lines)) {
    if (!one.starts_with(name)) continue;
    std::string_view rest = one.substr(name.size());
    const size_t begin = rest.find_first_not_of(" \t=:");
    if (begin == 0 || begin == std::string_view::npos) continue;
    rest = rest.substr(begin);
    rest = rest.substr(0, rest.find_first_of(" \t"));
    const auto number = number_of_word(rest);
    if (value && !number) continue;
    value = number;
    word = rest.substr(0, kMostOfLine);
    line = one.substr(0, kMostOfLine);
  }
}

// In pieces, however much the file has. A line's end is of no interest: what is cut off is in the middle of a
// very long one.
PrintedResult printed_result(const std::filesystem::path& file, std::string_view name) {
  constexpr size_t kPiece = size_t{1} << 20, kLongLine = size_t{1} << 16;
  PrintedResult result;
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return result;
  const OpenFile opened(file, O_RDONLY);
  std::string text, piece(kPiece, '\0');
  for (int64_t at = 0; const size_t got = opened.read_at(at, piece); at += static_cast<int64_t>(got)) {
    text.append(piece, 0, got);
    const size_t complete = text.find_last_of(kEndsOfLines) + 1;  // npos + 1 is 0
    result.take(std::string_view(text).substr(0, complete), name);
    text.erase(0, complete);
    text.resize(std::min(text.size(), kLongLine));
  }
  result.take(text, name);
  return result;
}

}  // namespace lockstep::sweep
