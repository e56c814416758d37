// What the text formats of sequences share: lines with numbers, and errors that name file and line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/sequences.h"

namespace lockstep::data {

/// The most that one text file may have.
inline constexpr int64_t kMostSequenceBytes = int64_t{1} << 32;

/// Where a text is being read.
struct TextPlace {
  std::string path;
  int64_t line = 0;  ///< counted from 1
};

/// corrupt_data: `cannot read "path", line 17: why`
[[noreturn]] void refuse(const TextPlace& place, const std::string& why, std::string hint = {});

/// Without blanks at both ends.
std::string_view trimmed(std::string_view text);

/// Takes the next line off `rest`, trimmed. False at the end.
bool next_line(std::string_view& rest, std::string_view& line, TextPlace& place);

/// Takes the next cell off a line of cells that commas separate, trimmed. `rest` becomes nullopt after the
/// last.
std::string_view next_cell(std::optional<std::string_view>& rest);

/// Adds the numbers that commas separate. Throws as refuse() for one that is missing, no number or not
/// finite.
void append_numbers(std::string_view text, const TextPlace& place, std::vector<float>& numbers);

/// Makes the dataset, its labels (of `classes`) matched to options.classes when there are any. Throws
/// invalid_option as source_of() does.
Source source_of(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences,
                 const std::string& path, std::string kind, const SourceOptions& options);

}  // namespace lockstep::data
