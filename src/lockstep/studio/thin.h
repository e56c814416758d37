// Makes a curve of any length small enough to draw, without losing what stands out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::studio {

struct Points {
  std::vector<double> x;
  std::vector<double> y;  ///< NaN: a gap
  int64_t count = 0;      ///< of the points that they stand for
};

/// What part of a curve is drawn, and on how many columns of pixels.
struct Window {
  double from = 0;
  double to = 0;
  int64_t columns = 1000;
};

/// The points of the window, with a neighbour on each side so that lines go on. If they are more than two for
/// each column, each column has its least, its greatest and a not finite value, if any, in their order; the
/// last point is the last one of the window.
///   x  rising
Points thin(std::span<const double> x, std::span<const float> y, const Window& window);

/// The number with the fewest digits that this float32 can stand for, such as the 0.38125 that was logged.
double shortest_number(float value);

/// The moving average of TensorBoard: each value counts `weight` times as much as the next one, and the
/// beginning is not drawn towards zero. Values that are not finite are left out of it. weight: [0, 1)
std::vector<float> smoothed(std::span<const float> y, double weight);

}  // namespace lockstep::studio
