#include "lockstep/sweep/internal/kept_weights.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "lockstep/record/run_folder.h"

namespace lockstep::sweep {

namespace fs = std::filesystem;

KeptWeights::KeptWeights(SweepPaths paths, const SweepSpec& spec)
    : paths_(std::move(paths)),
      count_(spec.trains() ? static_cast<size_t>(spec.options.keep_weights) : 0),
      sign_(spec.maximizes() ? -1 : 1) {}

void KeptWeights::take(const Trial& trial) {
  if (!is_over(trial.state)) return;
  if (count_ == 0 || !taken_.insert(trial.number).second) return;
  best_.emplace(trial.state == TrialState::failed, trial.state != TrialState::ended,
                std::isnan(trial.value) ? 0.0 : sign_ * trial.value, trial.number);
  if (best_.size() <= count_) return;
  const auto worst = std::prev(best_.end());
  remove(std::get<int64_t>(*worst));
  best_.erase(worst);
}

void KeptWeights::remove(int64_t trial) const {
  const record::RunPaths run{paths_.trial(trial)};
  std::error_code ignored;
  fs::remove_all(run.checkpoints(), ignored);
  fs::remove(run.weights(), ignored);
  fs::remove(run.best_weights(), ignored);
}

}  // namespace lockstep::sweep
