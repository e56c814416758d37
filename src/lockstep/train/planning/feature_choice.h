// Whether the outputs of frozen first layers are computed once and kept, and where: they are the same in each
// epoch if the images are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/datastore.h"
#include "lockstep/train/cache/image_caches.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/planning/this_machine.h"

namespace lockstep::train {

/// What decides it beside the plan.
struct FeatureRequest {
  KeepFeatures asked = KeepFeatures::auto_;
  bool augments = false;                 ///< an augmentation was asked for
  std::optional<bool> kept_before = {};  ///< in an earlier attempt of the run
  int64_t copies = 1;                    ///< that this process keeps in memory
  int64_t most_bytes = 0;                ///< memory for all copies
  CacheChoice cache = {};
};

/// earlier: the plan of the run that is continued, or null.
FeatureRequest feature_request(const Options& options, const ThisMachine& machine, const Plan* earlier);

struct FeatureChoice {
  bool keep = false;
  bool on_disk = false;  ///< only there
  std::string reason;    ///< for the plan; empty if no layers are frozen
};

/// Throws invalid_option for --keep-features always where that is impossible.
///   prepared  its network, prototype, and its plan's network, data and step parts
FeatureChoice choose_features(const Prepared& prepared, const data::Dataset& train,
                              const FeatureRequest& request);

struct FeatureFiles {
  FeatureStorage train;
  FeatureStorage validation;
  std::string refusal;  ///< why a dataset has no file; empty: all have one
};

/// The files of the outputs that the plan keeps. Beside memory they serve later runs.
FeatureFiles open_feature_files(const Prepared& prepared, const CacheChoice& choice);

/// Changes a plan with features on disk where there can be no files: the features are then kept in memory, or
/// not kept at all. Returns a note for the user, which the reason completes.
///   required  they must be kept: asked for, or kept when the run began, on any rank; without them the
///   weights
///             have other bits
std::string keep_without_files(NetworkPlan& plan, bool required);

}  // namespace lockstep::train
