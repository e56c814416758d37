#include "lockstep/view/internal/curve.h"

#include <cmath>
#include <utility>

namespace lockstep::view {

void Curve::add(int64_t step, double value) {
  if (!std::isfinite(value)) return;
  last_ = {static_cast<double>(step), value};
  if (!stretches_.empty() && stretches_.back().count < stretch_count_) {
    Stretch& stretch = stretches_.back();
    if (value < stretch.low.value) stretch.low = last_;
    if (value > stretch.high.value) stretch.high = last_;
    ++stretch.count;
    return;
  }
  if (stretches_.size() == kCurvePoints / 2) halve();
  stretches_.push_back({last_, last_, 1});
}

void Curve::halve() {
  std::vector<Stretch> halved;
  halved.reserve(kCurvePoints / 2);
  for (size_t i = 0; i < stretches_.size(); i += 2) {
    Stretch merged = stretches_[i];
    if (i + 1 < stretches_.size()) {
      const Stretch& next = stretches_[i + 1];
      if (next.low.value < merged.low.value) merged.low = next.low;
      if (next.high.value > merged.high.value) merged.high = next.high;
      merged.count += next.count;
    }
    halved.push_back(merged);
  }
  stretches_ = std::move(halved);
  stretch_count_ *= 2;
}

void Curve::forget_from(int64_t step) {
  const auto first = static_cast<double>(step);
  while (!stretches_.empty() && (stretches_.back().low.step >= first || stretches_.back().high.step >= first))
    stretches_.pop_back();
  if (last_.step >= first) {
    last_ = {};
    if (!stretches_.empty())
      last_ = stretches_.back().low.step > stretches_.back().high.step ? stretches_.back().low
                                                                       : stretches_.back().high;
  }
}

std::vector<Point> Curve::points() const {
  std::vector<Point> result;
  result.reserve(stretches_.size() * 2 + 1);
  for (const Stretch& stretch : stretches_) {
    Point first = stretch.low;
    Point second = stretch.high;
    if (second.step < first.step) std::swap(first, second);
    result.push_back(first);
    if (second.step != first.step) result.push_back(second);
  }
  if (!result.empty() && result.back().step != last_.step) result.push_back(last_);
  return result;
}

double Smoother::add(double value) {
  if (!std::isfinite(value)) return value;
  sum_ = keep_ * sum_ + (1 - keep_) * value;
  weight_ = keep_ * weight_ + (1 - keep_);
  return sum_ / weight_;
}

}  // namespace lockstep::view
