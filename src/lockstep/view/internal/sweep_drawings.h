// The drawings of a sweep's page as SVG.
#pragma once

#include <string>

#include "lockstep/view/internal/drawing.h"
#include "lockstep/view/sweep_page.h"

namespace lockstep::view {

/// A line for each trial across an axis for each parameter. The best tenth is drawn on top, in another
/// colour. A line passes below an axis whose parameter does not count for the trial.
std::string draw_parallel(const sweep::ParallelCoordinates& parallel, const PageColours& colours);

/// A dot for each trial that has a result, and a line for the best until then of those that were trained in
/// full. Empty without results.
std::string draw_results(const sweep::Table& table, const PageColours& colours);

/// The curves of the chosen trials in one plot; curve i is drawn as compared_key(i) shows.
std::string draw_compared(const std::vector<TrialCurve>& curves, const std::string& name,
                          const PageColours& colours);

/// A curve as large as a word.
std::string draw_small(const TrialCurve& curve, double low, double high);

/// A piece of the curve's line: the first curves have colours, further ones dashes, too.
std::string compared_key(size_t index);
std::string_view compared_style();

}  // namespace lockstep::view
