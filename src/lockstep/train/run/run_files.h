// What a run keeps beside weights and events: the manifest that a resume and a prediction read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

/// RUN/options.json as it was written by the run's first attempt.
struct Manifest {
  Options options;  ///< as asked
  Plan plan;        ///< resolved
  Json network;     ///< the layer graph; null for a module of the user's own
};

void write_manifest(const std::filesystem::path& path, const Options& options, const Prepared& prepared);

/// Nothing if there is no such file (the run was killed before it was written). Throws corrupt_data for
/// anything that is not a manifest, also for a plan that lacks the size of the samples, the classes, the
/// mini-batch or the shards, or has impossible ones.
std::optional<Manifest> read_manifest(const std::filesystem::path& path);

/// The names of the options that may change at a resume: those that do not affect the weights.
std::vector<std::string> options_free_at_resume();

/// Whether a resume may be given other options that differ from the run's.
enum class Change { refused, allowed };

/// The options of a resumed run: the run's own, with those taken from `asked` that were given: named in
/// `given`, or not at their defaults. Throws invalid_option for one of those that is refused.
Options resumed_options(const Options& asked, const Options& run, const std::vector<std::string>& given,
                        Change change);

/// Whether they differ only in options that may change at a resume.
bool same_training(const Options& a, const Options& b);

/// Everything that affects the weights, in one object: equal for two runs that must have equal weights. Kept
/// in every checkpoint. ranks: of the run.
Json fingerprint_of(const Options& options, const Prepared& prepared, int64_t ranks);

/// Throws invalid_option naming the first thing in which a checkpoint's fingerprint differs from this run's;
/// the arithmetic of another machine only gives a text to warn with.
std::string compare_fingerprints(const Json& checkpoint, const Json& here);

}  // namespace lockstep::train
