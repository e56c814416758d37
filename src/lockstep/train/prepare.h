// From what was asked to what is needed: data opened and split, the network chosen and checked, every option
// resolved.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/picture_set.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/features.h"
#include "lockstep/train/fit.h"
#include "lockstep/train/plan.h"

namespace lockstep::train {

struct Prepared {
  Plan plan;
  nn::Network network;
  nn::Instance prototype;  ///< with its first weights, in training mode
  std::shared_ptr<const data::PictureSet> train;
  std::shared_ptr<const data::PictureSet> validation;  ///< may be null
  std::shared_ptr<const data::PictureSet> test;        ///< may be null
  FeatureStorage train_features = {};                  ///< where plan.keep_features
  FeatureStorage validation_features = {};
  std::vector<std::string> notes;  ///< what a user should hear when the run starts
  std::vector<data::BadSample> skipped;
};

/// What an earlier attempt of the run resolved; a resumed run keeps it.
struct Resolved {
  int64_t mini_batch_size = 0;
  double learning_rate = 0;
  int64_t shards = 0;
  int64_t sampler_replicas = 0;
  std::string precision;  ///< as --precision names it
  bool keep_features = false;
};

/// The network with the weights that a run begins with: by options.seed, or from the file options.weights as
/// far as `load` says, and with what is frozen.
nn::Instance first_instance(const nn::Network& network, const nn::NetworkInput& input, const Options& options,
                            const nn::LoadOptions& load = {});

/// Throws not_found, with where they can be had, for a file options.weights that is not there.
void check_weights_are_there(const nn::Network& network, const Options& options);

/// `options` with what the network's file says of its input (nn::expected_input) in place of those that were
/// not asked for.
Options with_expected_input(const Options& options, const nn::Network& network,
                            const std::vector<std::string>& given);

/// Throws for whatever does not fit. `dry` leaves out what reads every sample (mean-std, the search for bad
/// samples).
Prepared prepare(const Job& job, const Options& options, bool dry, const Resolved* earlier = nullptr);

}  // namespace lockstep::train
