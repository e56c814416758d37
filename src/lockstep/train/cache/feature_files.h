// Files of what frozen layers give, so that it is computed once for all runs, processes and trials.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/data/image_set.h"
#include "lockstep/data/record_file.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/cache/image_caches.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// Of the weights and buffers of a network's first layers, so many.
uint64_t hash_of_frozen(nn::NamedTensors state, const nn::Instance& prototype, size_t steps);

/// The file of one dataset's features: its images and how they are decoded, resized and normalised, the
/// network (a layer graph) with its frozen weights (hash_of_frozen), precision, kernels and the processor's
/// arithmetic. Samples are computed in groups, so another split of the same images has another file.
/// content is 0 when nobody can tell whether the images changed.
data::RecordsKey features_key(const data::ImageSet& images, const nn::Network& network, const Plan& plan,
                              uint64_t frozen, int64_t record_bytes);

/// Why there can be no file of so many bytes, as far as one can tell before; empty: there can. By --cache and
/// --cache-size.
std::string feature_file_obstacle(const data::Dataset& dataset, int64_t bytes, const CacheChoice& choice);

struct OpenedFeatures {
  std::shared_ptr<const data::RecordFile> file = nullptr;
  std::string refusal = {};  ///< why there is none
};

/// In the folder that --cache names, else among those that runs keep by themselves. What keeps it from being
/// made is a refusal and no error.
OpenedFeatures open_features(const data::RecordsKey& key, const CacheChoice& choice);

}  // namespace lockstep::train
