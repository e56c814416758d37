#include "lockstep/data/internal/cells.h"

#include <algorithm>
#include <array>

#include "lockstep/base/blanks.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/sequence_text.h"

namespace lockstep::data {
namespace {

constexpr std::array<char, 3> kSeparators{',', ';', '\t'};

// None: the line has no separator.
std::optional<char> separator_in(std::string_view line) {
  std::array<int64_t, kSeparators.size()> counts{};
  bool is_quoted = false, may_begin_quote = true;
  for (const char each : line) {
    const auto at = std::ranges::find(kSeparators, each);
    if (each == '"' && (is_quoted || may_begin_quote)) {
      is_quoted = !is_quoted;
      may_begin_quote = true;  // a doubled quote
    } else if (!is_quoted && at != kSeparators.end()) {
      ++counts[static_cast<size_t>(at - kSeparators.begin())];
      may_begin_quote = true;
    } else if (each != ' ') {
      may_begin_quote = false;
    }
  }
  const auto most = std::ranges::max_element(counts);
  if (*most > 0) return kSeparators[static_cast<size_t>(most - counts.begin())];
  CellReader words(without_blanks(line), ' ');
  return is_image_name(words.next()) && !words.at_end() ? std::optional(' ') : std::nullopt;
}

}  // namespace

std::string_view CellReader::next() {
  const std::string_view line = *rest_;
  size_t at = 0;
  while (at < line.size() && line[at] != separator_ && kBlanks.find(line[at]) != std::string_view::npos) ++at;
  if (at == line.size() || line[at] != '"') {
    const size_t end = line.find(separator_);
    rest_ = end == std::string_view::npos ? std::nullopt : std::optional(line.substr(end + 1));
    return without_blanks(line.substr(0, end));
  }
  unquoted_.clear();
  bool is_quoted = false;
  for (; at < line.size() && (is_quoted || line[at] != separator_); ++at) {
    const bool is_mark = line[at] == '"' && (is_quoted || without_blanks(unquoted_).empty());
    const bool is_doubled = is_mark && is_quoted && at + 1 < line.size() && line[at + 1] == '"';
    if (!is_mark || is_doubled) unquoted_ += line[at];
    if (is_doubled) ++at;
    if (is_mark && !is_doubled) is_quoted = !is_quoted;
  }
  has_open_quote_ = is_quoted;
  rest_ = at < line.size() ? std::optional(line.substr(at + 1)) : std::nullopt;
  return without_blanks(unquoted_);
}

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (CellReader reader(line, separator); !reader.at_end();) cells.emplace_back(reader.next());
  if (separator == ' ') std::erase(cells, "");
  return cells;
}

char separator_of(std::string_view text) {
  constexpr int kLines = 2;
  int seen = 0;
  TextPlace place;
  for (std::string_view line; seen < kLines && next_line(text, line, place);) {
    if (without_blanks(line).empty()) continue;
    if (const auto separator = separator_in(line)) return *separator;
    ++seen;
  }
  return ',';
}

}  // namespace lockstep::data
