// The search with a Gaussian process. Its rules are those of Optuna 5's GPSampler, but that it begins with
// spread points, models parameters with a condition too, tries no point twice while there are others, and
// transforms losses by a power, as HEBO does (Cowen-Rivers et al. 2022): bad ones are often worse by far than
// good ones differ.
#include <algorithm>
#include <cmath>

#include "lockstep/base/seed.h"
#include "lockstep/sweep/internal/acquisition.h"
#include "lockstep/sweep/internal/power_transform.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using State = Observation::State;

constexpr size_t kStartupTrials = 10;
constexpr double kLargest = 1e100;   // sums of squares of larger losses could overflow
constexpr int64_t kFantasies = 128;  // draws of what running trials may result in

// Results at different steps cannot be compared: those of trials that got as far as at least ten did. Longer
// ones count with the result that they have.
std::vector<const Observation*> comparable(std::span<const Observation> observations) {
  std::vector<const Observation*> told;
  for (const Observation& one : observations) {
    if (one.state != State::pending) told.push_back(&one);
  }
  const auto ended = [](const Observation* one) { return one->state == State::ended; };
  if (static_cast<size_t>(std::count_if(told.begin(), told.end(), ended)) >= kStartupTrials) {
    std::erase_if(told, [&](const Observation* one) { return !ended(one); });
    return told;
  }
  std::vector<int64_t> steps;
  for (const Observation* one : told) steps.push_back(one->step);
  std::sort(steps.rbegin(), steps.rend());
  if (steps.size() >= kStartupTrials)
    std::erase_if(
        told, [&](const Observation* one) { return !ended(one) && one->step < steps[kStartupTrials - 1]; });
  return told;
}

// About normal, with mean 0 and variance 1; larger is better. Infinite losses count as the worst finite one.
VectorXd scores_of(const std::vector<const Observation*>& told) {
  double worst = -HUGE_VAL;
  for (const Observation* one : told) {
    if (std::isfinite(one->loss)) worst = std::max(worst, one->loss);
  }
  VectorXd scores(static_cast<Index>(told.size()));
  for (size_t k = 0; k < told.size(); ++k)
    scores[static_cast<Index>(k)] = std::isfinite(told[k]->loss) ? -told[k]->loss
                                    : std::isfinite(worst)       ? -worst
                                                                 : 0;
  const double largest = scores.lpNorm<Eigen::Infinity>();
  if (largest > kLargest) scores /= largest;
  scores = standardized(scores);
  return standardized(transformed_by_power(scores, most_likely_power(scores)));
}

bool is_same(const Point& a, const Point& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

class GaussianProcessSampler : public Sampler {
 public:
  GaussianProcessSampler(const Space& space, uint64_t seed)
      : coordinates_(space), seed_(seed), start_(make_sobol_sampler(space, seed)) {
    for (const Parameter& parameter : space.parameters()) is_categorical_.push_back(!parameter.is_number());
  }
  bool learns() const override { return true; }

  Point suggest(int64_t trial, std::span<const Observation> observations) override {
    const std::vector<const Observation*> told = comparable(observations);
    if (told.size() < kStartupTrials) return start_->suggest(trial, {});
    Random random(seed_of({seed_, static_cast<uint64_t>(trial), 4}));
    const Points points = points_of(told);
    const VectorXd scores = scores_of(told);
    std::vector<const Observation*> running;
    for (const Observation& one : observations) {
      if (one.state == State::pending) running.push_back(&one);
    }
    const Acquisition acquisition = make_acquisition(fit_kernel(points, scores, is_categorical_), points,
                                                     scores, points_of(running), kFantasies, random);
    Index best = 0;
    scores.maxCoeff(&best);
    const std::vector<Point> candidates = best_points(coordinates_, acquisition, points.col(best), random);
    const auto is_new = [&](const Point& candidate) {
      return std::none_of(observations.begin(), observations.end(),
                          [&](const Observation& one) { return is_same(one.point, candidate); });
    };
    const auto next = std::find_if(candidates.begin(), candidates.end(), is_new);
    return next == candidates.end() ? candidates.front() : *next;
  }

 private:
  Points points_of(const std::vector<const Observation*>& observations) const {
    Points points(static_cast<Index>(coordinates_.space().size()), static_cast<Index>(observations.size()));
    for (size_t k = 0; k < observations.size(); ++k)
      points.col(static_cast<Index>(k)) = coordinates_.of(observations[k]->point);
    return points;
  }

  Coordinates coordinates_;
  uint64_t seed_;
  std::unique_ptr<Sampler> start_;
  std::vector<bool> is_categorical_;
};

}  // namespace

std::unique_ptr<Sampler> make_gp_sampler(const Space& space, uint64_t seed) {
  return std::make_unique<GaussianProcessSampler>(space, seed);
}

}  // namespace lockstep::sweep
