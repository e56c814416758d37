#include "lockstep/cli/columns.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/help.h"

namespace lockstep::cli {
namespace {

constexpr int kGap = 2;             // spaces before each column
constexpr int kNarrowestText = 24;  // a last column this wide or wider is broken, not moved to another table

constexpr int kWidestName = 40;  // two such columns and figures fit into 120 columns

std::string padded(const std::string& cell, int width, bool right) {
  const std::string space(static_cast<size_t>(width - width_of(cell)), ' ');
  return right ? space + cell : cell + space;
}

class Table {
 public:
  Table(std::vector<std::vector<std::string>> rows, const std::string& sides)
      : rows_(std::move(rows)), sides_(sides), widths_(sides.size(), 0) {
    for (auto& row : rows_) {
      for (std::string& cell : row) cell = printable(cell);
      for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], width_of(row[i]));
    }
  }

  std::string text(int width) const {
    std::string text;
    std::vector<size_t> chosen{0};
    int used = kGap + widths_.front();
    for (size_t i = 1; i < widths_.size(); ++i) {
      const bool breaks = i + 1 == widths_.size() && sides_[i] == 'l';
      const int needed = kGap + (breaks ? std::min(widths_[i], kNarrowestText) : widths_[i]);
      if (width > 0 && chosen.size() > 1 && used + needed > width) {
        text += part(chosen, width) + "\n";
        chosen = {0};
        used = kGap + widths_.front();
      }
      chosen.push_back(i);
      used += kGap + widths_[i];
    }
    return text + part(chosen, width);
  }

 private:
  std::string part(const std::vector<size_t>& columns, int width) const {
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      int at = 0;
      for (const size_t i : columns) {
        if (i >= row.size()) break;
        at += kGap;
        const bool breaks = width > 0 && i == columns.back() && sides_[i] == 'l';
        line += std::string(kGap, ' ') + (breaks ? wrap(row[i], std::max(1, width - at), at)
                                                 : padded(row[i], widths_[i], sides_[i] == 'r'));
        at += widths_[i];
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

  std::vector<std::vector<std::string>> rows_;
  std::string sides_;
  std::vector<int> widths_;
};

}  // namespace

std::string in_columns(std::vector<std::vector<std::string>> rows, const std::string& sides) {
  return in_columns_within(0, std::move(rows), sides);
}

std::string in_columns_within(int width, std::vector<std::vector<std::string>> rows,
                              const std::string& sides) {
  return Table(std::move(rows), sides).text(width);
}

std::string name_cell(const std::string& name) { return shortened(printable(name), kWidestName); }

std::string figure_cell(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string sizes_cell(std::span<const int64_t> sizes) {
  std::vector<std::string> sides;
  for (const int64_t size : sizes) sides.push_back(std::to_string(size));
  return sides.empty() ? "1" : join(sides, "x");
}

}  // namespace lockstep::cli
