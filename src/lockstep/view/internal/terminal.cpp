#include "lockstep/view/internal/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace lockstep::view {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

int environment_number(const char* name, int fallback) {
  const int value = std::atoi(std::string(environment(name)).c_str());
  return value > 0 && value < 10000 ? value : fallback;
}

// mpirun gives its programs a terminal without a size if its own output is not a terminal.
bool has_size(std::FILE* out) {
  winsize window{};
  return (::ioctl(::fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0) ||
         environment_number("COLUMNS", 0) > 0;
}

}  // namespace

Terminal::Terminal(std::FILE* out)
    : out_(out),
      has_width_(is_terminal() && has_size(out)),
      interactive_(has_width_ && environment("TERM") != "dumb"),
      colour_(interactive_ && environment("NO_COLOR").empty()) {}

bool Terminal::is_terminal() const { return ::isatty(::fileno(out_)) == 1; }

TerminalSize Terminal::size() const {
  TerminalSize size{environment_number("COLUMNS", 80), environment_number("LINES", 24)};
  winsize window{};
  if (::ioctl(::fileno(out_), TIOCGWINSZ, &window) == 0) {
    if (window.ws_col > 0) size.columns = window.ws_col;
    if (window.ws_row > 0) size.rows = window.ws_row;
  }
  return size;
}

void Terminal::print(const Line& line) {
  const std::vector<Line> block = block_;
  std::string text = block_erasure() + line.text() + "\n";
  block_.clear();
  write(text);
  if (!block.empty()) draw_block(block);
}

// The cursor is at the end of the block's last line. In a window that became narrower the block's lines are
// wrapped, so each may fill several rows.
std::string Terminal::block_erasure() const {
  if (block_.empty()) return {};
  const int columns = size().columns;
  int rows = -1;
  for (const Line& line : block_) rows += std::max(1, (line.width() + columns - 1) / columns);
  return (rows > 0 ? "\x1b[" + std::to_string(rows) + "A" : std::string()) + "\r\x1b[J";
}

void Terminal::draw_block(const std::vector<Line>& lines) {
  const int columns = size().columns;
  const bool in_place =
      block_.size() == lines.size() &&
      std::all_of(block_.begin(), block_.end(), [&](const Line& line) { return line.width() <= columns; });
  std::string text;
  if (in_place) {
    // Overwritten, not erased first, so that nothing flickers.
    if (lines.size() > 1) text += "\x1b[" + std::to_string(lines.size() - 1) + "A";
    text += "\r";
  } else {
    text += block_erasure();
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\n";
    text += lines[i].text() + "\x1b[K";
  }
  block_ = lines;
  write(text);
}

void Terminal::keep_block() {
  if (block_.empty()) return;
  block_.clear();
  write("\n");
}

void Terminal::erase_block() {
  write(block_erasure());
  block_.clear();
}

void Terminal::write(std::string_view text) {
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace lockstep::view
