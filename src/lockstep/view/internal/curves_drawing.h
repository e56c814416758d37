// The curves of a run as SVG.
#pragma once

#include <string>

#include "lockstep/view/internal/drawing.h"
#include "lockstep/view/internal/history.h"

namespace lockstep::view {

/// One svg element: accuracy, loss and learning rate against steps. `id` begins the ids in it, where a page
/// has several.
std::string draw_curves(const History& history, const PageColours& colours = {}, const std::string& id = {});

}  // namespace lockstep::view
