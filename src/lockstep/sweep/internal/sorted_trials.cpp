#include "lockstep/sweep/internal/sorted_trials.h"

#include <algorithm>
#include <cmath>

namespace lockstep::sweep {
namespace {

bool is_same_point(const Point& a, const Point& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

void SortedTrials::take(std::span<const Observation> observations) {
  const bool has_changed = std::any_of(observations.begin(), observations.end(), [&](const Observation& one) {
    const auto trial = static_cast<size_t>(one.trial);
    return trial < points_.size() && !points_[trial].empty() && !is_same_point(points_[trial], one.point);
  });
  if (has_changed) *this = {};
  for (const Observation& one : observations) insert(one);
}

void SortedTrials::insert(const Observation& one) {
  const auto trial = static_cast<size_t>(one.trial);
  if (trial >= points_.size()) points_.resize(trial + 1);
  if (!points_[trial].empty()) return;
  points_[trial] = one.point;
  sorted_.resize(one.point.size());
  for (size_t i = 0; i < sorted_.size(); ++i) {
    if (std::isnan(one.point[i])) continue;
    const auto is_before = [&](uint32_t a, uint32_t b) {
      return points_[a][i] != points_[b][i] ? points_[a][i] < points_[b][i] : a < b;
    };
    const auto number = static_cast<uint32_t>(trial);
    sorted_[i].insert(std::upper_bound(sorted_[i].begin(), sorted_[i].end(), number, is_before), number);
  }
}

ValueOrders SortedTrials::orders_of(const std::vector<const Observation*>& observations,
                                    const std::vector<size_t>& which) const {
  constexpr uint32_t kNotThere = UINT32_MAX;
  std::vector<uint32_t> positions(points_.size(), kNotThere);
  for (size_t k = 0; k < observations.size(); ++k)
    positions[static_cast<size_t>(observations[k]->trial)] = static_cast<uint32_t>(k);
  ValueOrders orders;
  for (const size_t i : which) {
    std::vector<size_t>& order = orders.emplace_back();
    if (i >= sorted_.size()) continue;
    order.reserve(observations.size());
    for (const uint32_t trial : sorted_[i]) {
      if (positions[trial] != kNotThere) order.push_back(positions[trial]);
    }
  }
  return orders;
}

}  // namespace lockstep::sweep
