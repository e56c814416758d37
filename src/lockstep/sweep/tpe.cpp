// The tree of Parzen estimators, with the rules of Optuna 5's TPESampler and its defaults: parameters that
// always count are chosen together, those with a condition each alone; trials without a result are among the
// bad ones (constant liar). Real parameters have more candidates than there, so that a trial with few others
// under way comes nearer to the best point.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "lockstep/base/seed.h"
#include "lockstep/sweep/internal/parzen.h"
#include "lockstep/sweep/internal/sorted_trials.h"
#include "lockstep/sweep/sampler.h"
#include "lockstep/sweep/search.h"

namespace lockstep::sweep {
namespace {

constexpr int64_t kStartupTrials = 10;
constexpr size_t kCandidates = 24;
constexpr size_t kMostReal = 40;  // so many parameters take as long as with Optuna's candidates
constexpr size_t kKeptBytes = 8 << 20;

using State = Observation::State;

// Ended trials by their loss, then those that ended early: the longer, then the better.
auto rank_of(const Observation& one) {
  const double loss = std::isnan(one.loss) ? HUGE_VAL : one.loss;
  const bool early = one.state == State::early;
  return std::tuple(early, early ? -one.step : 0, loss, one.trial);
}

struct Halves {
  std::vector<const Observation*> good;
  std::vector<const Observation*> bad;
  size_t pending = 0;
};

Halves halves_of(std::span<const Observation> observations) {
  std::vector<const Observation*> told;
  Halves halves;
  for (const Observation& one : observations)
    (one.state == State::pending ? halves.bad : told).push_back(&one);
  halves.pending = halves.bad.size();
  const auto count = std::min<size_t>(25, (told.size() + 9) / 10);
  std::sort(told.begin(), told.end(),
            [](const Observation* a, const Observation* b) { return rank_of(*a) < rank_of(*b); });
  halves.good.assign(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(count));
  halves.bad.insert(halves.bad.end(), told.begin() + static_cast<std::ptrdiff_t>(count), told.end());
  const auto by_trial = [](const Observation* a, const Observation* b) { return a->trial < b->trial; };
  std::sort(halves.good.begin(), halves.good.end(), by_trial);
  std::sort(halves.bad.begin(), halves.bad.end(), by_trial);
  return halves;
}

// A suggestion takes and frees some megabytes, which glibc would give back to the system each time. Once it
// has freed a block of this size, it keeps twice as much (mallopt(3), M_MMAP_THRESHOLD).
void keep_freed_memory() {
  void* volatile block = std::malloc(kKeptBytes);
  std::free(block);
}

class TpeSampler : public Sampler {
 public:
  TpeSampler(const Space& space, uint64_t seed)
      : space_(space), seed_(seed), random_(make_random_sampler(space, seed)) {
    for (size_t i = 0; i < space.size(); ++i) {
      const Parameter& parameter = space.parameters()[i];
      if (!parameter.is_single() && parameter.when.empty()) together_.push_back(i);
    }
    keep_freed_memory();
  }
  bool learns() const override { return true; }

  Point suggest(int64_t trial, std::span<const Observation> observations) override {
    const auto told = std::count_if(observations.begin(), observations.end(),
                                    [](const Observation& one) { return one.state != State::pending; });
    Point point = random_->suggest(trial, {});
    if (told < kStartupTrials) return point;
    Random random(seed_of({seed_, static_cast<uint64_t>(trial), 3}));
    const Halves halves = halves_of(observations);
    sorted_.take(observations);
    if (!together_.empty()) choose(together_, halves, random, point);
    for (size_t i = 0; i < space_.size(); ++i) {
      const Parameter& parameter = space_.parameters()[i];
      if (parameter.when.empty()) continue;
      point[i] = kAbsent;
      if (!space_.counts(i, point)) continue;
      if (parameter.is_single()) {
        point[i] = parameter.is_number() ? parameter.low : 0;
      } else {
        choose({i}, halves, random, point);
      }
    }
    return point;
  }

 private:
  // Of the observations that have all of these parameters.
  Parzen estimator(const std::vector<size_t>& which,
                   const std::vector<const Observation*>& observations) const {
    std::vector<Parameter> parameters;
    for (const size_t i : which) parameters.push_back(space_.parameters()[i]);
    std::vector<const Observation*> whole;
    std::vector<std::vector<double>> values;
    for (const Observation* one : observations) {
      std::vector<double> row;
      row.reserve(which.size());
      for (const size_t i : which) row.push_back(one->point[i]);
      if (std::any_of(row.begin(), row.end(), [](double value) { return std::isnan(value); })) continue;
      whole.push_back(one);
      values.push_back(std::move(row));
    }
    return {std::move(parameters), values, sorted_.orders_of(whole, which)};
  }

  // The best of many is greedy: with many trials under way all of them would be tried at the same place.
  size_t candidates_of(const std::vector<size_t>& which, size_t pending) const {
    const auto is_real = [&](size_t i) { return space_.parameters()[i].kind == ParameterKind::real; };
    if (std::none_of(which.begin(), which.end(), is_real)) return kCandidates;
    const auto usual = static_cast<size_t>(SearchOptions{}.lag);  // with which there are as many as in Optuna
    return std::max(kCandidates, std::min(kCandidates * (usual + 1) / (pending + 1),
                                          kCandidates * kMostReal / which.size()));
  }

  void choose(const std::vector<size_t>& which, const Halves& halves, Random& random, Point& point) const {
    const Parzen good = estimator(which, halves.good), bad = estimator(which, halves.bad);
    std::vector<std::vector<double>> candidates;
    const size_t count = candidates_of(which, halves.pending);
    while (candidates.size() < count) candidates.push_back(good.sample(random));
    const std::vector<double> of_good = good.log_densities(candidates),
                              of_bad = bad.log_densities(candidates);
    size_t best = 0;
    for (size_t k = 1; k < candidates.size(); ++k) {
      if (of_good[k] - of_bad[k] > of_good[best] - of_bad[best]) best = k;
    }
    for (size_t k = 0; k < which.size(); ++k) point[which[k]] = candidates[best][k];
  }

  Space space_;
  uint64_t seed_;
  std::unique_ptr<Sampler> random_;
  std::vector<size_t> together_;
  SortedTrials sorted_;
};

}  // namespace

std::unique_ptr<Sampler> make_tpe_sampler(const Space& space, uint64_t seed) {
  return std::make_unique<TpeSampler>(space, seed);
}

}  // namespace lockstep::sweep
