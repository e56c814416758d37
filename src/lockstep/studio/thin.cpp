#include "lockstep/studio/thin.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace lockstep::studio {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);

// What one column of pixels shows.
class Column {
 public:
  void take(size_t at, float value) {
    if (!std::isfinite(value)) {
      if (gap_ == kNowhere) gap_ = at;
      return;
    }
    if (least_ == kNowhere || value < least_value_) {
      least_ = at;
      least_value_ = value;
    }
    if (greatest_ == kNowhere || value > greatest_value_) {
      greatest_ = at;
      greatest_value_ = value;
    }
  }

  void give(std::span<const double> x, std::span<const float> y, Points& points) {
    std::array<size_t, 3> at{least_, greatest_, gap_};
    std::sort(at.begin(), at.end());
    for (size_t i = 0; i < at.size() && at[i] != kNowhere; ++i) {
      if (i > 0 && at[i] == at[i - 1]) continue;
      points.x.push_back(x[at[i]]);
      points.y.push_back(y[at[i]]);
    }
    *this = Column();
  }

 private:
  size_t least_ = kNowhere;
  size_t greatest_ = kNowhere;
  size_t gap_ = kNowhere;
  float least_value_ = 0;
  float greatest_value_ = 0;
};

}  // namespace

Points thin(std::span<const double> x, std::span<const float> y, const Window& window) {
  auto begin = static_cast<size_t>(std::lower_bound(x.begin(), x.end(), window.from) - x.begin());
  auto end = static_cast<size_t>(std::upper_bound(x.begin(), x.end(), window.to) - x.begin());
  Points points;
  if (begin > 0) --begin;
  if (end < x.size()) ++end;
  if (begin >= end) return points;
  points.count = static_cast<int64_t>(end - begin);
  const auto columns = static_cast<size_t>(std::max<int64_t>(1, window.columns));
  if (end - begin <= 2 * columns) {
    points.x.assign(x.begin() + static_cast<std::ptrdiff_t>(begin),
                    x.begin() + static_cast<std::ptrdiff_t>(end));
    points.y.assign(y.begin() + static_cast<std::ptrdiff_t>(begin),
                    y.begin() + static_cast<std::ptrdiff_t>(end));
    return points;
  }
  const double width = (x[end - 1] - x[begin]) / static_cast<double>(columns);
  Column column;
  double column_ends = x[begin] + width;
  size_t number = 0;
  for (size_t i = begin; i < end; ++i) {
    if (x[i] > column_ends) {
      column.give(x, y, points);
      number = std::max(number + 1, static_cast<size_t>((x[i] - x[begin]) / width));
      column_ends = x[begin] + width * static_cast<double>(number + 1);
    }
    column.take(i, y[i]);
  }
  column.give(x, y, points);
  if (points.x.back() != x[end - 1] || points.y.back() != y[end - 1]) {
    points.x.push_back(x[end - 1]);
    points.y.push_back(y[end - 1]);
  }
  return points;
}

double shortest_number(float value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double number = value;
  std::from_chars(text.data(), written.ptr, number);
  return number;
}

std::vector<float> smoothed(std::span<const float> y, double weight) {
  std::vector<float> result;
  result.reserve(y.size());
  double mean = 0;
  double counted = 0;  // 1 - weight^n
  for (const float value : y) {
    if (!std::isfinite(value)) {
      result.push_back(value);
      continue;
    }
    mean = mean * weight + (1 - weight) * value;
    counted = counted * weight + (1 - weight);
    result.push_back(static_cast<float>(mean / counted));
  }
  return result;
}

}  // namespace lockstep::studio
