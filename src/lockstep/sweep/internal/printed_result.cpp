#include "lockstep/sweep/internal/printed_result.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include "lockstep/base/text.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kMostOfWord = 4096;  // that is kept

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

// Where the data that follow begin, at most at `end`.
int64_t next_data(const OpenFile& file, int64_t at, int64_t end) {
  const off_t data = ::lseek(file.get(), at, SEEK_DATA);
  if (data < 0) return errno == ENXIO ? end : at;  // nothing but a hole follows; no holes are known
  return std::min<int64_t>(data, end);
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
  for (size_t at = lines.find(name); at != std::string_view::npos; at = lines.find(name, at + 1)) {
    if (at > 0 && kEndsOfLines.find(lines[at - 1]) == std::string_view::npos) continue;
    const size_t after = at + name.size();
    std::string_view rest = lines.substr(after, lines.find_first_of(kEndsOfLines, after) - after);
    const size_t begin = rest.find_first_not_of(" \t=:");
    if (begin == 0 || begin == std::string_view::npos) continue;
    rest = rest.substr(begin);
    rest = rest.substr(0, rest.find_first_of(" \t"));
    const auto number = number_of_word(rest);
    if (value && !number) continue;
    value = number;
    word = rest.substr(0, kMostOfWord);
  }
}

// A line's end is of no interest: what is cut off is in the middle of a very long one.
void ResultReader::read_until(const OpenFile& file, int64_t end, std::string_view name) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  constexpr size_t kLongLine = size_t{1} << 16;
  std::string piece;
  while (at_ < end) {
    piece.resize(static_cast<size_t>(std::min(kPiece, end - at_)));
    const size_t got = file.read_at(at_, piece);
    if (got == 0) return;
    at_ += static_cast<int64_t>(got);
    rest_.append(piece, 0, got);
    const size_t complete = rest_.find_last_of(kEndsOfLines) + 1;  // npos + 1 is 0
    result_.take(std::string_view(rest_).substr(0, complete), name);
    rest_.erase(0, complete);
    rest_.resize(std::min(rest_.size(), kLongLine));
    // A hole reads as zeros. Only there: some file systems show one where data were written just now.
    const bool may_be_hole = piece.find_first_not_of('\0') >= got;
    if (may_be_hole) at_ = next_data(file, at_, end);
  }
}

PrintedResult ResultReader::result_of(const std::filesystem::path& file, std::string_view name) const {
  std::error_code none;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, none));  // others may print on
  ResultReader rest = !none && size < at_ ? ResultReader() : *this;
  if (!none) rest.read_until(OpenFile(file, O_RDONLY), size, name);
  rest.result_.take(rest.rest_, name);
  return rest.result_;
}

}  // namespace lockstep::sweep
