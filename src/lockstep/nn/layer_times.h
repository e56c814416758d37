// How long each layer of a network takes in a step of training.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

struct LayerTime {
  double forward_seconds = 0;
  double backward_seconds = 0;  ///< 0: no gradient goes through it
};

/// Measured on the calling thread's CPU cores, in float32, with new weights and made-up samples; the shortest
/// of three passes. In the order of the rows of inspect_network. Layers that are computed in one pass with
/// the layer before them (ReLU) take no time of their own. The calling thread's random numbers are used.
///   samples  in the mini-batch, > 0
/// Throws invalid_option for a C++ module.
std::vector<LayerTime> layer_times(const Network& network, const NetworkInput& input, int64_t samples);

}  // namespace lockstep::nn
