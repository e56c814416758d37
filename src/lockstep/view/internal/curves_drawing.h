// A run's curves as SVG.
#pragma once

#include <string>

#include "lockstep/view/internal/history.h"

namespace lockstep::view {

/// Colours as CSS writes them.
struct CurveColours {
  std::string paper = "#ffffff";
  std::string ink = "#24292f";
  std::string faint = "#6e7781";
  std::string grid = "#d8dee4";
  std::string band = "#f0f2f5";  ///< behind every second epoch
  std::string train = "#2a6fb0";
  std::string held_out = "#d8701a";
  std::string rate = "#6b8f5e";
};

/// One svg element: accuracy, loss and learning rate against steps.
std::string draw_curves(const History& history, const CurveColours& colours = {});

}  // namespace lockstep::view
