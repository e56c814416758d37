// The cells of a line of a table or of a sequence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Gives the cells of a line one after the other, without blanks and quotes around them. A quote in a quoted
/// cell is doubled (RFC 4180), and one within another cell is a character.
class CellReader {
 public:
  CellReader(std::string_view line, char separator) : rest_(line), separator_(separator) {}

  bool at_end() const { return !rest_; }
  /// The next cell; not at the end. The view is valid until the next call, and as long as the line.
  std::string_view next();
  /// Whether the last cell that was given has no closing quote.
  bool has_open_quote() const { return has_open_quote_; }

 private:
  std::optional<std::string_view> rest_;
  const char separator_;
  bool has_open_quote_ = false;
  std::string unquoted_;
};

/// All cells of a line. Several blanks are one separator.
std::vector<std::string> cells_of(std::string_view line, char separator);

/// What separates the cells of a table: of comma, semicolon and tab the one that its first line has most
/// often outside quotes, or the second line if the first one has none of them. A blank, if such a line has
/// none of them either and begins with the name of an image and a blank, as lists for Caffe do.
char separator_of(std::string_view text);

}  // namespace lockstep::data
