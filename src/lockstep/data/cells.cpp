#include "lockstep/data/internal/cells.h"

#include <algorithm>
#include <array>

#include "lockstep/base/blanks.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/sequence_text.h"

namespace lockstep::data {
namespace {

constexpr std::array<char, 3> kSeparators{',', ';', '\t'};

// None: the line has no separator.
std::optional<char> separator_in(std::string_view line) {
  std::array<int64_t, kSeparators.size()> counts{};
  bool is_quoted = false, may_begin_quote = true;
  for (const char each : without_blanks(line)) {
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
  return *most > 0 ? std::optional(kSeparators[static_cast<size_t>(most - counts.begin())]) : std::nullopt;
}

// Of a line "sep=;". Programs that write it as a line of cells put it in quotes, or separators behind it.
std::optional<char> said_separator(std::string_view line) {
  constexpr std::string_view kBegin = "sep=", kBehind = ",;\t \r\"";
  if (line.starts_with('"')) line.remove_prefix(1);
  if (line.size() <= kBegin.size()) return std::nullopt;
  const auto separator = std::ranges::find(kSeparators, line[kBegin.size()]);
  if (separator == kSeparators.end() || lower(line.substr(0, kBegin.size())) != kBegin ||
      line.find_first_not_of(kBehind, kBegin.size()) != std::string_view::npos)
    return std::nullopt;
  return *separator;
}

// The two words of a line; empty if it has another number of them.
std::array<std::string, 2> two_words(std::string_view line) {
  std::array<std::string, 2> words;
  size_t count = 0;
  for (CellReader reader(line, ' '); !reader.at_end();) {
    const std::string_view word = reader.next();
    if (word.empty()) continue;
    if (count == words.size()) return {};
    words[count++] = word;
  }
  return count == words.size() ? words : std::array<std::string, 2>{};
}

// As lists for Caffe have it: "a/1.png 3".
bool is_image_and_class(const std::array<std::string, 2>& words) {
  return is_image_name(words[0]) && !is_image_name(words[1]);
}

}  // namespace

std::string_view CellReader::next() {
  const std::string_view line = *rest_;
  size_t at = 0;
  while (at < line.size() && line[at] != separator_ && kBlanks.find(line[at]) != std::string_view::npos) ++at;
  const bool is_quoted = at < line.size() && line[at] == '"';
  if (is_quoted) {
    at = read_quoted(line, at + 1);
    has_open_quote_ = at == std::string_view::npos;
    if (has_open_quote_) {
      rest_.reset();
      return without_blanks(unquoted_);
    }
  }
  const size_t end = std::min(line.find(separator_, at), line.size());
  rest_ = end == line.size() ? std::nullopt : std::optional(line.substr(end + 1));
  const bool is_complete = is_quoted && without_blanks(line.substr(at, end - at)).empty();
  return without_blanks(is_complete ? std::string_view(unquoted_) : line.substr(0, end));
}

size_t CellReader::read_quoted(std::string_view line, size_t at) {
  unquoted_.clear();
  while (true) {
    const size_t quote = line.find('"', at);
    unquoted_ += line.substr(at, quote - at);
    if (quote == std::string_view::npos) return quote;
    if (quote + 1 == line.size() || line[quote + 1] != '"') return quote + 1;
    unquoted_ += '"';
    at = quote + 2;
  }
}

std::vector<std::string> cells_of(std::string_view line, char separator, bool* has_open_quote) {
  std::vector<std::string> cells;
  CellReader reader(line, separator);
  while (!reader.at_end()) cells.emplace_back(reader.next());
  if (has_open_quote != nullptr) *has_open_quote = reader.has_open_quote();
  if (separator == ' ') std::erase(cells, "");
  return cells;
}

char separator_of(std::string_view text) {
  TextPlace place;
  std::array<std::string, 2> names;  // of a first line of two words
  for (std::string_view line; next_line(text, line, place);) {
    if (without_blanks(line).empty()) continue;
    if (names[0].empty()) {
      if (const auto separator = said_separator(line)) return *separator;
      if (const auto separator = separator_in(line)) return *separator;
      names = two_words(line);
      if (is_image_and_class(names)) return ' ';
      if (names[0].empty()) return ',';
    } else {
      return !separator_in(line) && is_image_and_class(two_words(line)) ? ' ' : ',';
    }
  }
  return ',';
}

bool has_no_cells(std::string_view line) { return without_blanks(line).empty() || said_separator(line); }

}  // namespace lockstep::data
