// A network with the weights that a run begins with.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// The network with the weights that a run begins with: by options.seed, or from the file options.weights as
/// far as `load` says, and with what is frozen.
nn::Instance first_instance(const nn::Network& network, const nn::NetworkInput& input, const Options& options,
                            const nn::LoadOptions& load = {});

/// Throws not_found, with where they can be had, for a file options.weights that is not there.
void check_weights_are_there(const nn::Network& network, const Options& options);

/// `options` with what the network's file says of its input (nn::expected_input) in place of those that were
/// not asked for.
Options with_expected_input(const Options& options, const nn::Network& network,
                            const std::vector<std::string>& given);

}  // namespace lockstep::train
