// Layers with fixed weights.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// Freezes what the patterns cover (surgery.h), by names of learnables or of layers. Frozen learnables get no
/// gradient. A module whose learnables are all frozen stays in evaluation mode, which matters for batch norm.
/// Throws invalid_option for a pattern that covers nothing.
void freeze(Instance& instance, const std::vector<std::string>& patterns);

/// Whether the name of a learnable or layer belongs to this layer or to something inside it.
bool is_at_or_below(const std::string& name, const std::string& layer);

/// Training mode, except for frozen layers.
void begin_training(const Instance& instance);

/// How many of the layer graph's first layers (Instance::layers) give the same output for an image in every
/// step, because they have frozen weights and no random numbers, and end in one tensor that is all that later
/// layers need. 0: none, or none with weights.
size_t frozen_layers(const Instance& instance);

}  // namespace lockstep::nn
