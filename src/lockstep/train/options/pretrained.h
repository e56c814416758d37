// --pretrained: which published weights a training starts from.
#pragma once

#include "lockstep/nn/trained_weights.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// Null without --pretrained. Throws invalid_option for a network without published weights, and together
/// with another --network or --weights.
const nn::TrainedWeights* pretrained_weights(const Options& options);

}  // namespace lockstep::train
