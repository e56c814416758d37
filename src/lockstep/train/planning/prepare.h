// Opens the data, chooses the network, and resolves every option: the plan, and what a run needs beside it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/image_set.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/cache/features.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

struct Prepared {
  Plan plan;
  nn::Network network;
  nn::Instance prototype;  ///< with its first weights, in training mode
  std::shared_ptr<const data::ImageSet> train;
  std::shared_ptr<const data::ImageSet> validation;  ///< may be null
  std::shared_ptr<const data::ImageSet> test;        ///< may be null
  FeatureStorage train_features = {};                ///< if plan.network.keep_features
  FeatureStorage validation_features = {};
  std::vector<std::string> notes;  ///< messages for the user at the start of the run
  std::vector<data::BadSample> skipped;
};

/// Throws Error for options that are invalid or do not suit each other, the data, the network or the machine.
/// `dry` omits what reads every sample (mean-std, the search for bad samples) and makes no caches.
///   earlier  the plan of an earlier attempt of the run, or rank 0's. The mini-batch, shards, learning rate,
///            replicas of the sampler, precision, kept features and whether the shards of a module go
///            together are taken from it
Prepared prepare(const TrainingRequest& request, const Options& options, bool dry,
                 const Plan* earlier = nullptr);

}  // namespace lockstep::train
