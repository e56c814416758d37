// Layers whose weights stay as they are.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// Freezes what the patterns cover (surgery.h), by names of learnables or of layers: these learnables take no
/// gradient, and modules all of whose learnables are frozen are held in evaluation mode, batch norms above
/// all. Throws invalid_option for a pattern that covers nothing.
void freeze(Instance& instance, const std::vector<std::string>& patterns);

/// Whether a learnable's or a layer's name is this layer's or of something in it.
bool is_at_or_below(const std::string& name, const std::string& layer);

/// Training mode, but for frozen layers.
void begin_training(const Instance& instance);

/// How many of the layer graph's first layers (Instance::steps) give the same for an image in every step, by
/// frozen weights and without random numbers, to one tensor that is all the others need. 0: none, or none
/// with weights.
size_t frozen_layers(const Instance& instance);

}  // namespace lockstep::nn
