// Cross-validation: the runs of --validation-folds, each of which holds out another part of the samples. What
// they have in common is in folds.json, so that a cross-validation can be continued.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// Mean and deviation of some scores, as NumPy's mean() and std(), which scikit-learn's users print.
struct Spread {
  double mean = 0;       ///< NaN without scores
  double deviation = 0;  ///< of the population: the root of the mean square of the distances to the mean
};
Spread spread_of(const std::vector<double>& scores);

struct FoldsResult {
  std::vector<Result>
      runs;              ///< those that have ended; of a stopped cross-validation the last is the stopped one
  Spread accuracy;       ///< on the parts that the runs held out
  Spread test_accuracy;  ///< NaN without test data
  std::filesystem::path output;  ///< has the run folders fold-1, fold-2, ...
  bool stopped() const { return !runs.empty() && runs.back().reason == EndReason::stopped; }
};

/// Called on each rank before each run, with its number (from 1), the number of runs, and its folder.
using FoldBegins = std::function<void(int64_t fold, int64_t count, const std::filesystem::path& output)>;

/// Whether --output is the folder of a cross-validation.
bool holds_folds(const std::filesystem::path& folder);

/// Trains one run after the other, with the same seed, as options.validation_folds says. With options.resume
/// the options are those of the cross-validation in options.output, with those that may change; runs that
/// have ended are not repeated. request.comm: as for fit, and all ranks call it together. Not for tasks of a
/// pool, which call fit with options.fold. Throws what fit throws.
FoldsResult fit_folds(const TrainingRequest& request, const Options& options, const FoldBegins& begins = {});

}  // namespace lockstep::train
