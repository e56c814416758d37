// Shared by the text formats of sequences: lines with numbers, and errors that name file and line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/sequences.h"

namespace lockstep::data {

/// Maximum number of values in one text file.
inline constexpr int64_t kMostSequenceBytes = int64_t{1} << 32;

/// The position of the parser in a text.
struct TextPlace {
  std::string path;
  int64_t line = 0;  ///< counted from 1
};

/// corrupt_data: `cannot read "path", line 17: why`; no line before the first one.
[[noreturn]] void refuse(const TextPlace& place, const std::string& why, std::string hint = {});

/// The text without blanks at both ends.
std::string_view trimmed(std::string_view text);

/// Removes the next line from `rest` and returns it trimmed. False at the end.
bool next_line(std::string_view& rest, std::string_view& line, TextPlace& place);

/// The text as UTF-8 without the byte order mark, which Windows' programs write before it. UTF-16 is
/// converted if it has a mark or begins with a character of ASCII; halves of characters become U+FFFD.
std::string as_utf8(std::string text);

/// Removes the next cell of a comma-separated line and returns it trimmed, without quotes around it. `rest`
/// becomes nullopt after the last cell.
std::string_view next_cell(std::optional<std::string_view>& rest);

/// A cell's number. from_chars takes no plus sign.
std::string_view without_plus(std::string_view cell);

/// Appends comma-separated numbers. Throws as refuse() does if one is missing, not a number or not finite.
void append_numbers(std::string_view text, const TextPlace& place, std::vector<float>& numbers);

/// Makes the dataset with its labels (of `classes`), matched to options.classes if there are any. Throws
/// invalid_option as source_of() does.
Source source_of(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences,
                 const std::string& path, std::string kind, const SourceOptions& options);

}  // namespace lockstep::data
