// The samplers that do not learn.
#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/text.h"
#include "lockstep/sweep/internal/sobol.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {
namespace {

constexpr int64_t kMostGridPoints = 1'000'000;

class RandomSampler : public Sampler {
 public:
  RandomSampler(const Space& space, uint64_t seed) : space_(space), seed_(seed) {}
  Point suggest(int64_t trial, std::span<const Observation>) override {
    Random random(seed_of({seed_, static_cast<uint64_t>(trial), 1}));
    std::vector<double> places(space_.size());
    for (double& place : places) place = random.uniform();
    return point_at(space_, places);
  }

 private:
  Space space_;
  uint64_t seed_;
};

class SobolSampler : public Sampler {
 public:
  SobolSampler(const Space& space, uint64_t seed) : space_(space), numbers_(make_numbers(space, seed)) {}
  Point suggest(int64_t trial, std::span<const Observation>) override {
    return point_at(space_, numbers_.at(trial));
  }

 private:
  static SobolNumbers make_numbers(const Space& space, uint64_t seed) {
    Random random(seed_of({seed, 2}));
    return {space.size(), random};
  }

  Space space_;
  SobolNumbers numbers_;
};

class GridSampler : public Sampler {
 public:
  GridSampler(const Space& space, int64_t steps) : space_(space) {
    Point point(space.size(), kAbsent);
    fill(point, 0, steps);
  }
  Point suggest(int64_t trial, std::span<const Observation>) override {
    return points_.at(static_cast<size_t>(trial));
  }
  std::optional<int64_t> most_trials() const override { return static_cast<int64_t>(points_.size()); }

 private:
  // The last parameter changes first.
  void fill(Point& point, size_t i, int64_t steps) {
    if (i == space_.size()) {
      if (static_cast<int64_t>(points_.size()) == kMostGridPoints)
        throw Error(ErrorCode::invalid_option,
                    "the grid has more than " + with_commas(kMostGridPoints) + " points",
                    "search fewer parameters, or use --search sobol");
      points_.push_back(point);
      return;
    }
    point[i] = kAbsent;
    if (!space_.counts(i, point)) return fill(point, i + 1, steps);
    for (const double value : values_of(space_.parameters()[i], steps)) {
      point[i] = value;
      fill(point, i + 1, steps);
    }
    point[i] = kAbsent;
  }

  static std::vector<double> values_of(const Parameter& parameter, int64_t steps) {
    std::vector<double> values;
    if (!parameter.is_number()) {
      for (size_t i = 0; i < parameter.choices.size(); ++i) values.push_back(static_cast<double>(i));
      return values;
    }
    const bool whole = parameter.kind == ParameterKind::integer;
    if (whole && parameter.high - parameter.low < static_cast<double>(steps)) {
      for (double value = parameter.low; value <= parameter.high; ++value) values.push_back(value);
      return values;
    }
    for (int64_t k = 0; k < steps; ++k) {
      const double share = steps == 1 ? 0.5 : static_cast<double>(k) / static_cast<double>(steps - 1);
      double value = parameter.log ? parameter.low * std::pow(parameter.high / parameter.low, share)
                                   : parameter.low + (parameter.high - parameter.low) * share;
      if (steps > 1 && k == 0) value = parameter.low;
      if (steps > 1 && k == steps - 1) value = parameter.high;
      if (whole) value = std::round(value);
      if (values.empty() || values.back() != value) values.push_back(value);
    }
    return values;
  }

  Space space_;
  std::vector<Point> points_;
};

}  // namespace

double value_at(const Parameter& parameter, double place) {
  if (!parameter.is_number()) {
    const auto count = static_cast<double>(parameter.choices.size());
    return std::min(count - 1, std::floor(place * count));
  }
  const double half = parameter.kind == ParameterKind::integer ? 0.5 : 0;
  double low = parameter.low - half, high = parameter.high + half;
  if (parameter.log) {
    low = std::log(low);
    high = std::log(high);
  }
  double value = low + (high - low) * place;
  if (parameter.log) value = std::exp(value);
  if (half > 0) value = std::round(value);
  return std::clamp(value, parameter.low, parameter.high);
}

Point point_at(const Space& space, std::span<const double> places) {
  Point point(space.size(), kAbsent);
  for (size_t i = 0; i < space.size(); ++i) {
    if (space.counts(i, point)) point[i] = value_at(space.parameters()[i], places[i]);
  }
  return point;
}

std::unique_ptr<Sampler> make_grid_sampler(const Space& space, int64_t steps) {
  return std::make_unique<GridSampler>(space, steps);
}

std::unique_ptr<Sampler> make_random_sampler(const Space& space, uint64_t seed) {
  return std::make_unique<RandomSampler>(space, seed);
}

std::unique_ptr<Sampler> make_sobol_sampler(const Space& space, uint64_t seed) {
  return std::make_unique<SobolSampler>(space, seed);
}

std::unique_ptr<Sampler> make_sampler(const Space& space, const SamplerChoice& choice) {
  switch (choice.kind) {
    case SearchKind::grid:
      return make_grid_sampler(space, choice.grid_steps);
    case SearchKind::random:
      return make_random_sampler(space, choice.seed);
    case SearchKind::sobol:
      return make_sobol_sampler(space, choice.seed);
    case SearchKind::tpe:
      return make_tpe_sampler(space, choice.seed);
    case SearchKind::gp:
      return make_gp_sampler(space, choice.seed);
  }
  throw Error(ErrorCode::internal, "unknown search");
}

}  // namespace lockstep::sweep
