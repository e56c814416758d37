// A network with its weights, as files of other programs hold it.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"

namespace lockstep::onnx {

struct TrainedNetwork {
  nn::Network network;  ///< a layer graph
  nn::NetworkInput input;
  nn::NamedTensors state = {};            ///< parameters and buffers by PyTorch's names
  std::vector<std::string> classes = {};  ///< empty: unknown
  std::vector<double> mean = {};          ///< per channel, of pixels / 255; empty: none is subtracted
  std::vector<double> deviation = {};     ///< the same, which is divided by
};

}  // namespace lockstep::onnx
