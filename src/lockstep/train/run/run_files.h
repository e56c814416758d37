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

/// Which files the run learns from and is judged by: a line of JSON for each sample, [part, class, file], in
/// order.
void write_listing(const std::filesystem::path& path, const Prepared& prepared);

void write_manifest(const std::filesystem::path& path, const Options& options, const Prepared& prepared);

/// Nothing when there is no such file (a run that was killed before it was written). Throws corrupt_data for
/// anything else, also for a plan of samples in sizes that none have.
std::optional<Manifest> read_manifest(const std::filesystem::path& path);

/// The names that may change at resume, for docs and help.
const std::vector<std::string>& options_free_at_resume();

/// What becomes of other options that a resume is given, and that differ from the run's.
enum class Change { refused, allowed };

/// The options of a resumed run: the run's own, with those taken from `asked` that were given: named in
/// `given`, or not at their defaults. Throws invalid_option for one of those that is refused.
Options resumed_options(const Options& asked, const Options& run, const std::vector<std::string>& given,
                        Change change);

/// Whether they differ in nothing but what may change at resume.
bool same_training(const Options& a, const Options& b);

/// What decides the weights, in one object: equal for two runs whose weights are to be equal. Kept in every
/// checkpoint. ranks: of the run.
Json fingerprint_of(const Options& options, const Prepared& prepared, int64_t ranks);

/// Throws invalid_option naming the first thing in which a checkpoint's fingerprint differs from this run's;
/// the arithmetic of another machine only gives a text to warn with.
std::string compare_fingerprints(const Json& checkpoint, const Json& here);

}  // namespace lockstep::train
