// The program's two outputs, and how wide the terminal is.
#pragma once

#include <cstdio>
#include <string_view>

namespace lockstep::cli {

/// Thrown by Console::print when nobody reads standard output any more, as behind `| head`.
struct ClosedPipe {};

class Console {
 public:
  /// width  columns that texts are wrapped to; 0: the terminal's, 80 when there is none
  Console(std::FILE* out, std::FILE* error, int width);

  /// Writes to standard output and flushes. Throws ClosedPipe, or io when the text cannot be written.
  void print(std::string_view text);
  /// Throws as print does when anything sent to standard output could not be written, also by others than
  /// this console.
  void check_written();
  /// Writes to standard error; a failure there has nowhere to go.
  void note(std::string_view text);

  int width() const { return width_; }
  /// Columns of the terminal that standard output is, for tables: as many as it has. 0 where it is none.
  int table_width() const;
  bool is_terminal() const;
  bool note_is_terminal() const;

 private:
  std::FILE* out_;
  std::FILE* error_;
  int width_;
};

}  // namespace lockstep::cli
