// The tables of what is built in: types of layers, and networks.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/layer.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

const std::vector<LayerType>& layer_types();

/// A network as its layer graph.
struct BuiltinNetwork {
  std::string name;
  Json (*graph)();
  NetworkInput input;             ///< what it was made for, with as many classes
  const char* weights = nullptr;  ///< where a file of trained ones is offered
};
const std::vector<BuiltinNetwork>& builtin_networks();

}  // namespace lockstep::nn
