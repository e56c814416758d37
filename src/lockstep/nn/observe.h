// A network with access to the output of one layer.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/nn/layer.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

struct ObservedLayer {
  Network network;  ///< with the same tensors; forward_part(input, 0, layer_count) of its instances returns
                    ///< the output of the layer
  size_t layer_count = 0;  ///< position of the layer in the order of evaluation, counted from 1
  Shape shape;             ///< shape of its output, without the batch
};

/// `layer` has the name that `lockstep network show` lists. Sequences must have no padding. Throws
/// invalid_option for an unknown layer, with the known names, and for a C++ module.
ObservedLayer observe_layer(const Network& network, const NetworkInput& input, const std::string& layer);

}  // namespace lockstep::nn
