// Files of features (features.h), so that they are computed once for all runs, processes and trials of a
// sweep.
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

/// The hash of the weights and buffers of a network's first `steps` layers.
uint64_t hash_of_frozen(nn::NamedTensors state, const nn::Instance& prototype, size_t steps);

/// Identifies the file of one dataset's features. The key depends on the images, on how they are decoded,
/// resized and normalised, on the network (a graph of layers) with its frozen weights (hash_of_frozen), and
/// on precision, kernels and the processor's arithmetic. Samples are computed in groups, so another split of
/// the same images has another file. `content` is 0 if it cannot be known whether the images have changed.
data::RecordsKey features_key(const data::ImageSet& images, const nn::Network& network, const Plan& plan,
                              uint64_t frozen, int64_t record_bytes);

/// The reason why --cache or --cache-size does not allow a file of `bytes` bytes, as far as is known before;
/// empty if they allow it.
std::string feature_file_obstacle(const data::Dataset& dataset, int64_t bytes, const CacheChoice& choice);

struct OpenedFeatures {
  std::shared_ptr<const data::RecordFile> file = nullptr;
  std::string refusal = {};  ///< the reason if there is no file
};

/// Opens or makes the file in the folder of --cache, otherwise among the caches that runs make automatically.
/// If it cannot be made, that is a refusal and no error.
OpenedFeatures open_features(const data::RecordsKey& key, const CacheChoice& choice);

}  // namespace lockstep::train
