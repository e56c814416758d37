// Numbers as the reader of a run wants them, and the ticks of an axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::view {

/// A loss: "0.0812", "12.40", "nan".
std::string as_loss(double value);
/// An accuracy in 0..1: "0.9751".
std::string as_accuracy(double value);
/// Three figures: "0.00871", "1e-05".
std::string as_rate(double value);
/// Images per second: "3,402", "8.1".
std::string as_speed(double value);

/// An axis from `low` to `high` with round ticks.
struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;
  int digits = 0;  ///< decimals that distinguish the ticks

  double share(double value) const { return (value - low) / (high - low); }
  std::string label(double tick) const;  ///< short: "10,000", "1.5e+06"
};

/// Ticks at 1, 2 or 5 times a power of ten, at most `most_ticks`. The ends stay as given, or move outwards to
/// a tick with `round_out`.
Axis make_axis(double low, double high, int most_ticks, bool round_out);

}  // namespace lockstep::view
