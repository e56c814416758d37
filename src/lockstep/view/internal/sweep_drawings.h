// The drawings of a sweep's page as SVG.
#pragma once

#include <string>

#include "lockstep/view/internal/drawing.h"
#include "lockstep/view/sweep_page.h"

namespace lockstep::view {

/// A line for each trial across an axis for each parameter. The best tenth is drawn on top, in another
/// colour. A line passes below an axis whose parameter does not count for the trial.
std::string draw_parallel(const sweep::ParallelCoordinates& parallel, const PageColours& colours);

struct ValueRange {
  double low = 0;
  double high = 0;
};
/// Of the values of these curves. One of a trial that has failed, or whose result is far beyond the others
/// (sweep::shown_results), counts only if all are such.
ValueRange range_of_curves(const sweep::Table& table, const std::vector<TrialCurve>& curves);

/// A dot for each trial that has a result, and a line for the best until then of those that were trained in
/// full. A triangle at the end of the axis is a result beyond it. Empty without results.
std::string draw_results(const sweep::Table& table, const PageColours& colours);

/// The curves of the chosen trials in one plot; curve i is drawn as compared_key(i) shows. What is beyond
/// the range is cut off, and a line of text says of which trials.
std::string draw_compared(const std::vector<TrialCurve>& curves, const std::string& name, ValueRange range,
                          const PageColours& colours);

/// A curve as large as a word.
std::string draw_small(const TrialCurve& curve, ValueRange range);

/// A piece of the curve's line: the first curves have colours, further ones dashes, too.
std::string compared_key(size_t index);
std::string_view compared_style();

}  // namespace lockstep::view
