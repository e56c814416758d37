// Built-in networks with their published weights, for programs.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/download/download.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// A network, and the file of its weights. `input` has what the weights expect of images, as options of
/// lockstep train by name ("image-size": "224x224"); train::fit and train::model_of_weights know it from the
/// file.
struct Pretrained {
  Network network;
  std::filesystem::path weights;
  Json input;
};

struct PretrainedOptions {
  std::string mirror = {};          ///< address of a folder with copies; empty: torchvision's own
  download::Options download = {};  ///< progress and stop of a download
};

/// pretrained("alexnet"): torchvision's weights, trained on ImageNet, from the cache that lockstep train
/// uses; downloaded if they are not there. Throws invalid_option for a network without published weights, and
/// what download::fetch throws.
Pretrained pretrained(const std::string& network, const PretrainedOptions& options = {});

}  // namespace lockstep::nn
