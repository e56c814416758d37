// A network one of whose layers is looked at.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/nn/layer.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

struct ObservedLayer {
  Network network;  ///< with the same tensors; forward_part(input, 0, layer_count) of its instances gives
                    ///< what the layer gives
  size_t layer_count = 0;  ///< the layer is the last of so many in the order of evaluation
  Shape shape;             ///< of its output, without the batch
};

/// `layer` is named as `lockstep network show` lists it. Sequences are taken without padding. Throws
/// invalid_option for a layer that is not there, with the names of those that are, and for a module in C++.
ObservedLayer observe_layer(const Network& network, const NetworkInput& input, const std::string& layer);

}  // namespace lockstep::nn
