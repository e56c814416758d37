// best_points: where the acquisition is highest.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lockstep/sweep/internal/acquisition.h"
#include "lockstep/sweep/internal/ascent.h"
#include "lockstep/sweep/internal/sobol.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int64_t kSpread = 2048;    // points that are only looked at
constexpr size_t kStarts = 10;       // of local searches
constexpr int kMostRounds = 20;      // of a local search
constexpr double kTryAll = 16;       // values of a whole number that are tried one by one
constexpr double kLeastGain = 1e-5;  // of an ascent
constexpr double kLongestStep = 0.25, kShortestStep = 1.0 / 1024;  // of a real parameter, of its range
constexpr double kLeastGainOfTries = 0.01;                         // that is worth another round

struct Candidate {
  VectorXd coordinates{};
  double value = 0;
};

class LocalSearch {
 public:
  LocalSearch(const Coordinates& coordinates, const Acquisition& acquisition)
      : coordinates_(coordinates), acquisition_(acquisition) {}

  void improve(Candidate& one) const {
    for (int round = 0; round < kMostRounds; ++round) {
      ascend_in_reals(one);
      bool has_changed = false;
      for (size_t i = 0; i < space().size(); ++i) {
        if (!space().parameters()[i].is_single()) has_changed = try_values(one, i) || has_changed;
      }
      if (!has_changed) return;
    }
  }

 private:
  const Space& space() const { return coordinates_.space(); }

  // In units of the kernel's lengths, in which the function is equally steep in all parameters.
  void ascend_in_reals(Candidate& one) const {
    const Point point = coordinates_.point(one.coordinates);
    std::vector<Index> free;
    for (size_t i = 0; i < space().size(); ++i) {
      const Parameter& parameter = space().parameters()[i];
      if (parameter.kind == ParameterKind::real && !parameter.is_single() && !std::isnan(point[i]))
        free.push_back(static_cast<Index>(i));
    }
    if (free.empty()) return;
    const VectorXd units = acquisition_.kernel().parameters().inverse_squared_lengths(free).cwiseSqrt();
    const auto at = [&](const VectorXd& place) {
      VectorXd coordinates = one.coordinates;
      coordinates(free) = place.cwiseQuotient(units).cwiseMin(1.0).cwiseMax(0.0);
      return coordinates;
    };
    const SmoothFunction goal = [&](const VectorXd& place, VectorXd& gradient) {
      VectorXd whole;
      const double value = acquisition_.value_and_gradient(at(place), whole);
      gradient = whole(free).cwiseQuotient(units);
      return value;
    };
    const VectorXd start = one.coordinates(free).cwiseProduct(units);
    const Ascent top = ascend(goal, start, VectorXd::Zero(start.size()), units, {.least_gain = kLeastGain});
    if (top.value > one.value) one = {at(top.place), top.value};
  }

  bool try_values(Candidate& one, size_t i) const {
    const Parameter& parameter = space().parameters()[i];
    const Point point = coordinates_.point(one.coordinates);
    if (std::isnan(point[i])) return false;
    if (parameter.kind == ParameterKind::real) return try_reals(one, i);
    const double low = parameter.is_number() ? parameter.low : 0;
    const double high =
        parameter.is_number() ? parameter.high : static_cast<double>(parameter.choices.size()) - 1;
    if (!parameter.is_number() || high - low < kTryAll) {
      std::vector<double> places;
      for (double value = low; value <= high; ++value) {
        if (value != point[i]) places.push_back(coordinates_.of(i, value));
      }
      return take_best_of(one, i, places);
    }
    // Steps to both sides, which become shorter where none is an improvement.
    bool has_changed = false;
    for (double step = std::floor((high - low) / 4), here = point[i]; step >= 1;) {
      std::vector<double> places;
      for (const double value : {here - step, here + step}) {
        if (value >= low && value <= high) places.push_back(coordinates_.of(i, value));
      }
      if (take_best_of(one, i, places)) {
        here = coordinates_.point(one.coordinates)[i];
        has_changed = true;
      } else {
        step = std::floor(step / 2);
      }
    }
    return has_changed;
  }

  // An ascent from the best known point can end where it began, although a longer step would gain.
  bool try_reals(Candidate& one, size_t i) const {
    const double here = one.coordinates[static_cast<Index>(i)];
    std::vector<double> places;
    for (double step = kLongestStep; step >= kShortestStep; step /= 2) {
      if (here - step >= 0) places.push_back(here - step);
      if (here + step <= 1) places.push_back(here + step);
    }
    const double before = one.value;
    return take_best_of(one, i, places) && one.value > before + kLeastGainOfTries;
  }

  bool take_best_of(Candidate& one, size_t i, const std::vector<double>& places) const {
    if (places.empty()) return false;
    Points points(one.coordinates.size(), static_cast<Index>(places.size()));
    for (size_t k = 0; k < places.size(); ++k) {
      VectorXd coordinates = one.coordinates;
      coordinates[static_cast<Index>(i)] = places[k];
      coordinates_.settle(coordinates);
      points.col(static_cast<Index>(k)) = coordinates;
    }
    Index best = 0;
    const double value = acquisition_.values(points).maxCoeff(&best);
    if (!(value > one.value)) return false;
    one = {points.col(best), value};
    return true;
  }

  const Coordinates& coordinates_;
  const Acquisition& acquisition_;
};

// The best one, and others by chance in proportion to what they promise.
std::vector<Index> starts_among(const VectorXd& values, size_t count, Random& random) {
  Index best = 0;
  const double most = values.maxCoeff(&best);
  std::vector<Index> starts{best};
  VectorXd shares = (values.array() - most).exp();
  shares[best] = 0;
  while (starts.size() < count) {
    const double sum = shares.sum();
    if (!(sum > 0)) break;
    double place = random.uniform() * sum;
    Index next = 0;
    while (next + 1 < shares.size() && (place -= shares[next]) >= 0) ++next;
    if (shares[next] == 0) break;
    starts.push_back(next);
    shares[next] = 0;
  }
  return starts;
}

}  // namespace

std::vector<Point> best_points(const Coordinates& coordinates, const Acquisition& acquisition,
                               const Points& known, Random& random) {
  const Space& space = coordinates.space();
  SobolNumbers numbers(space.size(), random);
  Points spread(static_cast<Index>(space.size()), kSpread);
  for (int64_t k = 0; k < kSpread; ++k) spread.col(k) = coordinates.of(point_at(space, numbers.at(k)));
  const VectorXd values = acquisition.values(spread);

  std::vector<Candidate> candidates;
  for (const Index k : starts_among(values, kStarts - static_cast<size_t>(known.cols()), random))
    candidates.push_back({spread.col(k), values[k]});
  const VectorXd of_known = acquisition.values(known);
  for (Index k = 0; k < known.cols(); ++k) candidates.push_back({known.col(k), of_known[k]});
  const LocalSearch local(coordinates, acquisition);
  for (Candidate& one : candidates) local.improve(one);
  for (Index k = 0; k < kSpread; ++k) candidates.push_back({spread.col(k), values[k]});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  std::vector<Point> points;
  for (const Candidate& one : candidates) points.push_back(coordinates.point(one.coordinates));
  return points;
}

}  // namespace lockstep::sweep
