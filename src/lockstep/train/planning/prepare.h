// From what was asked to what is needed: data opened and split, the network chosen and checked, every option
// resolved.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/image_set.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/cache/features.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

struct Prepared {
  Plan plan;
  nn::Network network;
  nn::Instance prototype;  ///< with its first weights, in training mode
  std::shared_ptr<const data::ImageSet> train;
  std::shared_ptr<const data::ImageSet> validation;  ///< may be null
  std::shared_ptr<const data::ImageSet> test;        ///< may be null
  FeatureStorage train_features = {};                ///< where plan.network.keep_features
  FeatureStorage validation_features = {};
  std::vector<std::string> notes;  ///< what a user should hear when the run starts
  std::vector<data::BadSample> skipped;
};

/// Throws for whatever does not fit. `dry` leaves out what reads every sample (mean-std, the search for bad
/// samples).
///   earlier  what an earlier attempt of the run resolved. A resumed run keeps its mini-batch, shards,
///   learning rate, replicas of the sampler, precision and kept features
Prepared prepare(const TrainingRequest& request, const Options& options, bool dry,
                 const Plan* earlier = nullptr);

}  // namespace lockstep::train
