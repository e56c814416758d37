// The cells of a line of a table or of a sequence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Gives the cells of a line one after the other, without blanks and quotes around them. A quote in a quoted
/// cell is doubled (RFC 4180). In another cell, also one that goes on after its second quote, quotes are
/// characters.
class CellReader {
 public:
  CellReader(std::string_view line, char separator) : rest_(line), separator_(separator) {}

  bool at_end() const { return !rest_; }
  /// The next cell; not at the end. The view is valid until the next call, and as long as the line.
  std::string_view next();
  /// Whether the last cell that was given has no closing quote.
  bool has_open_quote() const { return has_open_quote_; }

 private:
  // From behind the first quote; the place behind the second one, or npos: there is none.
  size_t read_quoted(std::string_view line, size_t at);

  std::optional<std::string_view> rest_;
  const char separator_;
  bool has_open_quote_ = false;
  std::string unquoted_;
};

/// All cells of a line. Several blanks are one separator. has_open_quote: whether the last cell has no
/// closing quote; null: not asked.
std::vector<std::string> cells_of(std::string_view line, char separator, bool* has_open_quote = nullptr);

/// What separates the cells of a table or a sequence: what a first line "sep=;" says, as programs write it
/// for Excel; else of comma, semicolon and tab the one that its first line has most often outside quotes. A
/// blank in lists for Caffe: its first line, or its second one after two names, is an image's name and one
/// more word. A comma, if nothing does.
char separator_of(std::string_view text);

/// Whether a line is blank, or only says what the separator is: "sep=;".
bool has_no_cells(std::string_view line);

}  // namespace lockstep::data
