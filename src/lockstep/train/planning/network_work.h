// How much arithmetic a network takes, from its layers alone.
#pragma once

#include "lockstep/nn/network.h"

namespace lockstep::train {

/// Multiplications and additions (as one) of one sample forward: of each layer its learnables, times the
/// places or time steps where they are used. 0 for a user's module, whose layers are not known.
double forward_work(const nn::Network& network, const nn::NetworkInput& input);

}  // namespace lockstep::train
