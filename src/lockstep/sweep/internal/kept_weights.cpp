#include "lockstep/sweep/internal/kept_weights.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lockstep/record/run_folder.h"

namespace lockstep::sweep {

namespace fs = std::filesystem;

void drop_weights(const SweepPaths& paths, const SweepSpec& spec, const std::vector<Trial>& trials,
                  std::set<int64_t>& dropped) {
  if (spec.options.keep_weights == 0 || !spec.trains()) return;
  std::vector<const Trial*> over;
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::waiting && trial.state != TrialState::running) over.push_back(&trial);
  }
  const double sign = spec.maximizes() ? -1 : 1;
  const auto rank = [&](const Trial* one) {
    return std::tuple(one->state == TrialState::failed, one->state != TrialState::ended,
                      std::isnan(one->value) ? 0.0 : sign * one->value, one->number);
  };
  std::sort(over.begin(), over.end(), [&](const Trial* a, const Trial* b) { return rank(a) < rank(b); });
  for (size_t i = static_cast<size_t>(spec.options.keep_weights); i < over.size(); ++i) {
    if (!dropped.insert(over[i]->number).second) continue;
    const record::RunPaths run{paths.trial(over[i]->number)};
    std::error_code ignored;  // what cannot be removed stays
    fs::remove_all(run.checkpoints(), ignored);
    fs::remove(run.weights(), ignored);
    fs::remove(run.best_weights(), ignored);
  }
}

}  // namespace lockstep::sweep
