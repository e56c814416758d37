// A network with the weights that a run begins with.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The network with the weights that a run begins with: by the seed, or from the plan's file as far as the
/// network has its layers, and with what is frozen.
nn::Instance first_instance(const nn::Network& network, const NetworkPlan& plan, int64_t seed);

/// Throws not_found, with where they can be had, where there is no such file of weights.
void check_weights_are_there(const nn::Network& network, const std::string& file);

/// `options` with what the network's file says of its input (nn::expected_input) in place of those that were
/// not asked for.
Options with_expected_input(const Options& options, const nn::Network& network,
                            const std::vector<std::string>& given);

}  // namespace lockstep::train
