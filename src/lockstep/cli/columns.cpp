#include "lockstep/cli/columns.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

// Columns on a terminal: code points, which is right for all but combining and double-width characters.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& cell, size_t width, bool right) {
  const std::string space(width - width_of(cell), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

std::string in_columns(std::vector<std::vector<std::string>> rows, const std::string& sides) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  std::vector<size_t> widths(sides.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += "  " + padded(row[i], widths[i], sides[i] == 'r');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep::cli
