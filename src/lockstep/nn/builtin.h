// The tables of built-in layer types and networks.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/layer.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

const std::vector<LayerType>& layer_types();

/// A network as its layer graph. Published weights: trained_weights.h.
struct BuiltinNetwork {
  std::string name;
  Json (*graph)();
  NetworkInput input;  ///< the input that it was made for, including the number of classes
};
const std::vector<BuiltinNetwork>& builtin_networks();

}  // namespace lockstep::nn
