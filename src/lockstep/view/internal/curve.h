// A curve of any length in bounded memory, for plots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::view {

struct Point {
  double step = 0;
  double value = 0;
};

/// Keeps the lowest and the highest point of each stretch of steps. When there are too many stretches, their
/// length doubles. So peaks stay, and at most kCurvePoints + 1 points are kept.
inline constexpr size_t kCurvePoints = 1000;

class Curve {
 public:
  /// Steps in rising order. Values that are not finite are left out.
  void add(int64_t step, double value);

  /// Removes the points of this step and later ones (a resumed run adds them again).
  void forget_from(int64_t step);

  /// In order of step; the last point added is always the last.
  std::vector<Point> points() const;
  bool empty() const { return stretches_.empty(); }
  Point last() const { return last_; }

 private:
  struct Stretch {
    Point low;
    Point high;
    int64_t count = 0;
  };
  void halve();

  std::vector<Stretch> stretches_;
  int64_t stretch_count_ = 1;  // points in a full stretch
  Point last_;
};

/// The mean of the last values with exponentially decreasing weights, correct from the first value on (Kingma
/// and Ba 2015, section 3, bias correction).
class Smoother {
 public:
  explicit Smoother(double window = 20) { set_window(window); }
  void set_window(double window) { keep_ = 1 - 2 / (window + 1); }
  double add(double value);
  void clear() { sum_ = weight_ = 0; }

 private:
  double keep_ = 0;
  double sum_ = 0;
  double weight_ = 0;
};

}  // namespace lockstep::view
