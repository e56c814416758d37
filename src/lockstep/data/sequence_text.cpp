#include "lockstep/data/internal/sequence_text.h"

#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::data {

void refuse(const TextPlace& place, const std::string& why, std::string hint) {
  throw Error(ErrorCode::corrupt_data,
              "cannot read \"" + place.path + "\", line " + std::to_string(place.line) + ": " + why,
              std::move(hint));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool next_line(std::string_view& rest, std::string_view& line, TextPlace& place) {
  if (rest.empty()) return false;
  const size_t end = rest.find('\n');
  line = trimmed(rest.substr(0, end));
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  ++place.line;
  return true;
}

std::string_view next_cell(std::optional<std::string_view>& rest) {
  const std::string_view line = *rest;
  const size_t comma = line.find(',');
  rest = comma == std::string_view::npos ? std::nullopt : std::optional(line.substr(comma + 1));
  return trimmed(line.substr(0, comma));
}

void append_numbers(std::string_view text, const TextPlace& place, std::vector<float>& numbers) {
  for (std::optional rest(text); rest;) {
    std::string_view word = next_cell(rest);
    if (word.size() > 1 && word.front() == '+' && word[1] != '-') word.remove_prefix(1);
    const auto value = parse_number<float>(word);
    if (word == "?") refuse(place, "a value is missing (\"?\")", "fill in missing values before training");
    if (!value || !std::isfinite(*value)) {
      refuse(place, "\"" + std::string(word.substr(0, 40)) + "\" is not a finite number");
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
