// Choose the parameters of the next trial. A suggestion is a pure function of the seed, the trial's number
// and what the sampler is shown of earlier trials.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/sweep/space.h"

namespace lockstep::sweep {

enum class SearchKind { grid, random, sobol, tpe, gp };
constexpr std::array<const char*, 5> enum_names(SearchKind) {
  return {"grid", "random", "sobol", "tpe", "gp"};
}

/// What a sampler sees of an earlier trial.
struct Observation {
  enum class State {
    pending,  ///< it has no result yet
    ended,    ///< trained in full
    early,    ///< ended at a rung; `value` and `step` are from there
  };
  int64_t trial = 0;
  Point point{};
  State state = State::pending;
  double loss = kAbsent;  ///< less is better
  int64_t step = 0;
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// observations: in the order of their trials.
  virtual Point suggest(int64_t trial, std::span<const Observation> observations) = 0;
  /// Whether suggestions depend on observations.
  virtual bool learns() const { return false; }
  /// How many trials there can be; nothing: any number.
  virtual std::optional<int64_t> most_trials() const { return std::nullopt; }
};

/// steps: values of a real parameter in a grid, and of an integer one with more.
std::unique_ptr<Sampler> make_grid_sampler(const Space& space, int64_t steps);
std::unique_ptr<Sampler> make_random_sampler(const Space& space, uint64_t seed);
/// Sobol numbers (Joe and Kuo 2008, from Boost), shifted by the seed.
std::unique_ptr<Sampler> make_sobol_sampler(const Space& space, uint64_t seed);
/// The tree of Parzen estimators with Optuna 5's rules: multivariate, constant liar.
std::unique_ptr<Sampler> make_tpe_sampler(const Space& space, uint64_t seed);
/// A Gaussian process and the expected improvement over the best trial. After ten spread trials each
/// suggestion takes time that grows with the cube of the trials.
std::unique_ptr<Sampler> make_gp_sampler(const Space& space, uint64_t seed);

/// A sampler by its name.
struct SamplerChoice {
  SearchKind kind = SearchKind::tpe;
  uint64_t seed = 0;
  int64_t grid_steps = 5;
};
std::unique_ptr<Sampler> make_sampler(const Space& space, const SamplerChoice& choice);

/// The value of a parameter at a place in [0, 1) of its range.
double value_at(const Parameter& parameter, double place);

/// A point with each parameter at its place; those that do not count are absent.
Point point_at(const Space& space, std::span<const double> places);

}  // namespace lockstep::sweep
