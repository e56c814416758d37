// A plot made of characters: a line of braille dots, marks on top of it, axes with ticks.
#pragma once

#include <string>
#include <vector>

#include "lockstep/view/internal/curve.h"
#include "lockstep/view/internal/figures.h"
#include "lockstep/view/internal/line.h"

namespace lockstep::view {

struct TextPanel {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Point> curve;  ///< drawn as a line
  std::vector<Point> marks;  ///< drawn as dots over it
};

/// `width` x `height` characters, including the lines of the title and the axis.
std::vector<Line> draw_panel(const TextPanel& panel, int width, int height, bool colour);

/// Number of rows and columns of a panel that are not plot.
inline constexpr int kPanelFrameRows = 3;
inline constexpr int kPanelFrameColumns = 9;

}  // namespace lockstep::view
