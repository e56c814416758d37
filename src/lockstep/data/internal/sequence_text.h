// Shared by the text formats of sequences: lines with numbers, and errors that name file and line.
#pragma once

#include <cstdint>
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

/// Removes the next line from `rest` and returns it without its "\n". False at the end.
bool next_line(std::string_view& rest, std::string_view& line, TextPlace& place);

/// A file's bytes as UTF-8 whose lines end in "\n" or "\r\n": a "\r" alone, with which old programs for Macs
/// end a line, becomes "\n". Without the byte order mark, which Windows' programs write before it. UTF-16 is
/// converted if it has a mark or begins with a character of ASCII; halves of characters become U+FFFD.
std::string text_of(std::string bytes);

/// Why a line is refused in which a quoted cell does not end.
inline constexpr const char* kOpenQuote = "the line has a quote (\") without a second one";

/// A cell's number. from_chars takes no plus sign.
std::string_view without_plus(std::string_view cell);
bool is_number(std::string_view cell);

/// Appends the numbers of a line. Throws as refuse() does if one is missing, not a number or not finite.
void append_numbers(std::string_view text, char separator, const TextPlace& place,
                    std::vector<float>& numbers);

/// The first kHeadBytes of a file as text_of gives them. Throws as ByteStore::read_at.
inline constexpr int64_t kHeadBytes = 64 << 10;
std::string head_of(const io::ByteStore& store, const io::FileName& file);

/// Makes the dataset with its labels (of `classes`), matched to options.classes if there are any. Throws
/// invalid_option as source_of() does.
Source source_of(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences,
                 const std::string& path, std::string kind, const SourceOptions& options);

}  // namespace lockstep::data
