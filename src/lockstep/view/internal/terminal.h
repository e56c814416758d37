// Where text is printed: a terminal of some size, or a file or pipe.
#pragma once

#include <cstdio>
#include <string_view>
#include <vector>

#include "lockstep/view/internal/line.h"

namespace lockstep::view {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// Writes never fail: a run continues when its terminal is closed.
class Terminal {
 public:
  explicit Terminal(std::FILE* out);

  /// A terminal of a known size (its own, or COLUMNS), whose lines must fit.
  bool has_width() const { return has_width_; }
  /// Whether lines can be redrawn: has_width, and TERM is not "dumb".
  bool interactive() const { return interactive_; }
  /// A terminal of any kind.
  bool is_terminal() const;
  /// interactive, and NO_COLOR is not set (https://no-color.org).
  bool colour() const { return colour_; }
  /// The current size, because people resize windows. Else COLUMNS and LINES, else 80 x 24.
  TerminalSize size() const;

  /// Prints a line that stays, above the block.
  void print(const Line& line);
  /// Replaces the block of lines at the end of the output. Interactive only. Lines must be narrower than the
  /// terminal.
  void draw_block(const std::vector<Line>& lines);
  /// The block becomes ordinary output, or is removed.
  void keep_block();
  void erase_block();

 private:
  std::string block_erasure() const;
  void write(std::string_view text);

  std::FILE* out_;
  bool has_width_ = false;
  bool interactive_ = false;
  bool colour_ = false;
  std::vector<Line> block_;
};

}  // namespace lockstep::view
