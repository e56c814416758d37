// The curves of a run as lines of characters.
#pragma once

#include <vector>

#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/line.h"

namespace lockstep::view {

/// Accuracy and loss side by side where there is room, one above the other where not, and a legend: at most
/// `width` x `height` characters. Nothing when there is nothing to draw or no room.
std::vector<Line> draw_curves(const History& history, int width, int height, bool colour);

}  // namespace lockstep::view
