#include "lockstep/data/internal/sequence_text.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/data/internal/cells.h"
#include "lockstep/data/internal/unicode.h"

namespace lockstep::data {
namespace {

// Tables of other programs have other separators and, in many countries, decimal commas.
std::string hint_for(std::string_view word) {
  const bool has_digit = word.find_first_of("0123456789") != std::string_view::npos;
  const bool has_numbers_only = word.find_first_not_of("0123456789+-.,eE; \t") == std::string_view::npos;
  if (has_digit && has_numbers_only && word.find_first_of("; \t") != std::string_view::npos)
    return "separate the values of a line by commas, and write 1.5 with a point";
  if (has_digit && word.find(',') != std::string_view::npos) return "write 1.5 with a point";
  return "values are numbers such as 1.5, -2 and 3e-4, separated by commas; remove columns of times or names";
}

// Other programs write numbers of 64 bits, of which some are too small for 32; these become 0.
std::optional<float> number_of(std::string_view word) {
  if (const auto value = parse_number<float>(word)) return value;
  const auto wide = parse_number<double>(word);
  return wide && std::abs(*wide) < 1 ? std::optional(static_cast<float>(*wide)) : std::nullopt;
}

// The upper six bits of the halves of a character (RFC 2781).
constexpr uint32_t kUpperHalf = 0xd800 >> 10, kLowerHalf = 0xdc00 >> 10;
constexpr uint32_t kUnknownCharacter = 0xfffd;

std::string as_utf8(std::string text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf", kLittleEndian = "\xff\xfe", kBigEndian = "\xfe\xff";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  const bool has_mark = text.starts_with(kLittleEndian) || text.starts_with(kBigEndian);
  // Without a mark a text that begins with a character of ASCII has one zero at its beginning.
  if (!has_mark && (text.size() < 2 || (text[0] == '\0') == (text[1] == '\0'))) return text;
  const bool little = has_mark ? text.starts_with(kLittleEndian) : text[1] == '\0';
  const auto unit_at = [&](size_t at) {
    const auto first = static_cast<uint8_t>(text[at]), second = static_cast<uint8_t>(text[at + 1]);
    return static_cast<uint32_t>(little ? second << 8 | first : first << 8 | second);
  };
  std::string converted;
  for (size_t at = has_mark ? 2 : 0; at + 2 <= text.size(); at += 2) {
    uint32_t character = unit_at(at);
    const uint32_t next = at + 4 <= text.size() ? unit_at(at + 2) : 0;
    if (character >> 10 == kUpperHalf && next >> 10 == kLowerHalf) {
      character = 0x10000 + ((character & 0x3ff) << 10 | (next & 0x3ff));
      at += 2;
    }
    append_character(converted, character >> 11 == kUpperHalf >> 1 ? kUnknownCharacter : character);
  }
  return converted;
}

// Old programs for Macs end all lines by "\r" alone.
void end_lines(std::string& text) {
  if (text.find('\n') == std::string::npos) std::ranges::replace(text, '\r', '\n');
}

}  // namespace

void refuse(const TextPlace& place, const std::string& why, std::string hint) {
  throw Error(ErrorCode::corrupt_data,
              "cannot read \"" + place.path + "\"" +
                  (place.line > 0 ? ", line " + std::to_string(place.line) : "") + ": " + why,
              std::move(hint));
}

bool next_line(std::string_view& rest, std::string_view& line, TextPlace& place) {
  if (rest.empty()) return false;
  const size_t end = rest.find('\n');
  line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  ++place.line;
  return true;
}

std::string text_of(std::string bytes) {
  std::string text = as_utf8(std::move(bytes));
  end_lines(text);
  return text;
}

std::string_view without_plus(std::string_view cell) {
  return cell.size() > 1 && cell.front() == '+' && cell[1] != '-' ? cell.substr(1) : cell;
}

bool is_number(std::string_view cell) { return parse_number<double>(without_plus(cell)).has_value(); }

std::string head_of(const io::ByteStore& store, const io::FileName& file) {
  std::string head(kHeadBytes, '\0');
  head.resize(store.read_at(file, 0, head));
  return text_of(std::move(head));
}

void append_numbers(std::string_view text, char separator, const TextPlace& place,
                    std::vector<float>& numbers) {
  for (CellReader cells(text, separator); !cells.at_end();) {
    const std::string_view word = without_plus(cells.next());
    if (cells.has_open_quote()) refuse(place, kOpenQuote, "write a second quote at the end of the value");
    const auto value = number_of(word);
    if (word == "?") refuse(place, "a value is missing (\"?\")", "fill in missing values before training");
    if (word.empty())
      refuse(place, "a value is empty",
             "fill in missing values before training, and remove a separator at the end of a line");
    if (!value || !std::isfinite(*value)) {
      refuse(place, "\"" + std::string(word.substr(0, 40)) + "\" is not a finite number", hint_for(word));
    }
    numbers.push_back(*value);
  }
}

Source source_of(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences,
                 const std::string& path, std::string kind, const SourceOptions& options) {
  check_class_count(classes.size(), path, options);
  if (!options.classes.empty()) {
    const std::vector<int64_t> places = match_classes(classes, path, options);
    for (Sequence& sequence : sequences)
      sequence.label = sequence.label < 0 ? -1 : places[static_cast<size_t>(sequence.label)];
    classes = options.classes;
  }
  return {.dataset = make_sequences(channels, std::move(classes), std::move(sequences)),
          .kind = std::move(kind),
          .skipped = {}};
}

}  // namespace lockstep::data
