// The parts of a BuiltModel: those of the trainer, for one rank.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/shard_tree.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/custom/built_model.h"
#include "lockstep/train/step/loss_scale.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

struct BuiltModel::Parts {
  nn::Network network;
  nn::NetworkInput input;
  BuildOptions options;
  nn::Instance instance;
  SharedWeights weights;  ///< the parameters of `instance` alias them; running statistics are here
  std::vector<BatchNormInfo> norms;
  BatchNorms shard_statistics;  ///< of the last forward pass of `instance`
  data::SharedImages images;    ///< of the process
  std::shared_ptr<const data::ImageSet> validated =
      {};  ///< the last validation data, kept for the next validation
  std::vector<std::unique_ptr<comm::NodeStack>> spare_stacks =
      {};                     ///< kept, so that the next step uses their memory again
  LossScale loss_scale = {};  ///< in fp16-mixed
  int64_t exchanges = 0;
  std::vector<std::string> classes = {};  ///< of the dataset for which it was built
  bool training = true;

  void begin_training();
  void begin_evaluation();
};

/// For each of the model's learnables, whether it belongs to one of these layers ("classifier" holds
/// "classifier.1.weight"). Throws invalid_option for a layer without learnables.
std::vector<bool> learnables_of(const BuiltModel& model, const std::vector<std::string>& layers);

}  // namespace lockstep::train
