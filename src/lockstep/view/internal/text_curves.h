// The curves of a run as lines of characters.
#pragma once

#include <vector>

#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/line.h"

namespace lockstep::view {

/// Accuracy and loss beside each other if there is room, otherwise one above the other, and a legend: at most
/// `width` x `height` characters. Empty if there is nothing to draw or no room.
std::vector<Line> draw_curves(const History& history, int width, int height, bool colour);

}  // namespace lockstep::view
