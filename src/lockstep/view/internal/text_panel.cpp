#include "lockstep/view/internal/text_panel.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

// Each character holds 2 x 4 braille dots.
class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns),
        rows_(rows),
        dots_(static_cast<size_t>(columns * rows), 0),
        marks_(dots_.size(), false) {}

  // x and y in 0..1 from the lower left.
  void line(double x0, double y0, double x1, double y1) {
    const double across = (x1 - x0) * (columns_ * 2 - 1);
    const double up = (y1 - y0) * (rows_ * 4 - 1);
    const int count = std::max(1, static_cast<int>(std::ceil(std::max(std::abs(across), std::abs(up)))));
    for (int i = 0; i <= count; ++i) {
      const double share = static_cast<double>(i) / count;
      dot(x0 + (x1 - x0) * share, y0 + (y1 - y0) * share);
    }
  }
  void mark(double x, double y) {
    if (y < -0.02 || y > 1.02) return;
    const int column = std::clamp(static_cast<int>(x * (columns_ - 1) + 0.5), 0, columns_ - 1);
    marks_[place(cell(y, rows_), column)] = true;
  }
  void add_row(Line& line, int row) const {
    for (int column = 0; column < columns_; ++column) {
      const size_t at = place(row, column);
      if (marks_[at]) {
        line.add("●", Tint::held_out);
      } else if (dots_[at] == 0) {
        line.add(" ");
      } else {
        line.add(braille(dots_[at]), Tint::train);
      }
    }
  }

 private:
  static int cell(double y, int rows) {
    return std::clamp(static_cast<int>((1 - y) * (rows - 1) + 0.5), 0, rows - 1);
  }

  size_t place(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  void dot(double x, double y) {
    if (y < 0 || y > 1) return;
    const int column = std::clamp(static_cast<int>(x * (columns_ * 2 - 1) + 0.5), 0, columns_ * 2 - 1);
    const int row = cell(y, rows_ * 4);
    // Bits of U+2800: 1 2 4 down the left, 8 16 32 down the right, then 64 and 128 for the fourth row.
    static constexpr unsigned char kBits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    dots_[place(row / 4, column / 2)] |= kBits[row % 4][column % 2];
  }
  static std::string braille(unsigned char dots) {
    return {static_cast<char>(0xE2), static_cast<char>(0xA0 | (dots >> 6)),
            static_cast<char>(0x80 | (dots & 0x3F))};
  }

  int columns_;
  int rows_;
  std::vector<unsigned char> dots_;
  std::vector<bool> marks_;
};

Canvas paint(const TextPanel& panel, int columns, int rows) {
  Canvas canvas(columns, rows);
  for (size_t i = 0; i < panel.curve.size(); ++i) {
    const Point& from = panel.curve[i > 0 ? i - 1 : 0];
    const Point& to = panel.curve[i];
    canvas.line(panel.x.share(from.step), panel.y.share(from.value), panel.x.share(to.step),
                panel.y.share(to.value));
  }
  for (const Point& mark : panel.marks) canvas.mark(panel.x.share(mark.step), panel.y.share(mark.value));
  return canvas;
}

// The tick on a row, or none.
const double* tick_of_row(const Axis& axis, int row, int rows) {
  for (const double& tick : axis.ticks) {
    if (static_cast<int>((1 - axis.share(tick)) * (rows - 1) + 0.5) == row) return &tick;
  }
  return nullptr;
}

void add_step_axis(std::vector<Line>& lines, const Axis& axis, int columns, bool colour) {
  std::string marks = std::string(static_cast<size_t>(columns), '-');
  std::string labels(static_cast<size_t>(columns + kPanelFrameColumns), ' ');
  for (const double tick : axis.ticks) {
    const int at = static_cast<int>(axis.share(tick) * (columns - 1) + 0.5);
    marks[static_cast<size_t>(at)] = '+';
    const std::string label = tick >= 1e6 ? with_commas(std::llround(tick)) : axis.label(tick);
    const int begin = std::max(0, std::min(at + kPanelFrameColumns - static_cast<int>(label.size()) / 2,
                                           static_cast<int>(labels.size() - label.size())));
    // A label that would touch the previous one is left out.
    if (begin > 0 && labels[static_cast<size_t>(begin - 1)] != ' ') continue;
    labels.replace(static_cast<size_t>(begin), label.size(), label);
  }
  std::string rule = std::string(kPanelFrameColumns - 1, ' ') + "└";
  for (const char mark : marks) rule += mark == '+' ? "┬" : "─";
  lines.push_back(Line(colour).add(rule, Tint::dim));
  const std::string unit = "step";
  const std::string cleared = labels.substr(0, labels.size() - unit.size() - 1);
  const bool room = labels.find_first_not_of(' ', cleared.size()) == std::string::npos;
  lines.push_back(Line(colour).add(room ? cleared + " " + unit : labels, Tint::dim));
}

}  // namespace

std::vector<Line> draw_panel(const TextPanel& panel, int width, int height, bool colour) {
  const int columns = std::max(4, width - kPanelFrameColumns);
  const int rows = std::max(2, height - kPanelFrameRows);
  const Canvas canvas = paint(panel, columns, rows);
  std::vector<Line> lines;
  lines.push_back(Line(colour).space(kPanelFrameColumns - 1).add(panel.title, Tint::strong));
  for (int row = 0; row < rows; ++row) {
    Line line(colour);
    const double* tick = tick_of_row(panel.y, row, rows);
    line.add(padded_left(tick != nullptr ? panel.y.label(*tick) : "", kPanelFrameColumns - 2) +
                 (tick != nullptr ? " ┤" : " │"),
             Tint::dim);
    canvas.add_row(line, row);
    lines.push_back(std::move(line));
  }
  add_step_axis(lines, panel.x, columns, colour);
  return lines;
}

}  // namespace lockstep::view
