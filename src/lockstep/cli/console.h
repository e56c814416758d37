// The program's two outputs, and the width of the terminal.
#pragma once

#include <cstdio>
#include <string_view>

namespace lockstep::cli {

/// Thrown by Console::print when nobody reads standard output any more, as behind `| head`.
struct ClosedPipe {};

class Console {
 public:
  /// width  columns that texts are wrapped to; 0: the terminal's width, or 80 without a terminal
  Console(std::FILE* out, std::FILE* error, int width);

  /// Writes to standard output and flushes. Throws ClosedPipe, or io when the text cannot be written.
  void print(std::string_view text);
  /// Throws as print does if any earlier write to standard output failed, including writes by other code.
  void check_written();
  /// Writes to standard error and ignores failures, because they cannot be reported anywhere.
  void note(std::string_view text);

  int width() const { return width_; }
  /// Width of the terminal on standard output, in columns, for tables. 0 if standard output is not a
  /// terminal.
  int table_width() const;
  bool is_terminal() const;
  bool note_is_terminal() const;
  /// Whether what was printed can be overwritten: a terminal whose TERM is not "dumb". Otherwise only whole
  /// lines are printed.
  bool can_redraw() const;
  bool note_can_redraw() const;

 private:
  std::FILE* out_;
  std::FILE* error_;
  int width_;
};

}  // namespace lockstep::cli
