// A network with the weights with which a run begins.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The network with the weights with which a run begins: from the seed, or from the plan's file for the
/// layers that the network has. The plan's layers are frozen.
nn::Instance first_instance(const nn::Network& network, const NetworkPlan& plan, int64_t seed);

/// Throws not_found if there is no such file of weights, and says where to get it.
void check_weights_are_there(const nn::Network& network, const std::string& file);

/// `options` with the input that the network's file expects (nn::expected_input), except for options that
/// were given.
Options with_expected_input(const Options& options, const nn::Network& network,
                            const std::vector<std::string>& given);

/// `options` with the values of `expected`, texts by option, except for options that were given.
Options with_input(const Options& options, const Json& expected, const std::vector<std::string>& given);

}  // namespace lockstep::train
