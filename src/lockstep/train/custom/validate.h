// How good a model of a loop of one's own is on held-out data, found by all ranks together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/picture_set.h"
#include "lockstep/train/custom/built_model.h"

namespace lockstep::train {

struct ValidationOptions {
  int64_t mini_batch_size = 128;
  int64_t shards = 8;
  std::vector<double> mean = {};       ///< per channel, of pixels / 255, as the training's ShardOutput has them
  std::vector<double> deviation = {};
};

/// Equal on all ranks, with the same bits for any number of them; so a loop that ends by it ends on all.
struct Validation {
  double loss = 0;      ///< mean cross-entropy
  double accuracy = 0;  ///< share of samples
  int64_t samples = 0;
};

/// Each rank computes its shards in evaluation mode; then the numbers of all are added. Every rank calls it.
Validation validate(const BuiltModel& model, std::shared_ptr<const data::PictureSet> pictures, comm::Communicator& comm, const ValidationOptions& options = {});
Validation validate(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm, const ValidationOptions& options = {});

/// validate().accuracy
double accuracy(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm, const ValidationOptions& options = {});

}  // namespace lockstep::train
