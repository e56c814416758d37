// Which parameters of a network are learned, and how fast: --freeze, --learning-rate-factors, and the factors
// of a new head.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// A new instance whose first weights are a function of the seed, with the planned layers frozen.
nn::Instance trainable_instance(const nn::Network& network, const NetworkPlan& plan, int64_t seed);

/// The names of the parameters that are learned, in the order of SharedWeights' slots.
std::vector<std::string> learnables_of(const nn::Instance& instance);

/// What multiplies the learning rate of a parameter.
struct RateFactor {
  double value = 1;
  int64_t first_step = 0;  ///< before it the parameter does not move; the optimizer's state does
  friend bool operator==(const RateFactor&, const RateFactor&) = default;
};

/// A factor for each of the learnables, which are given by name. The plan's fresh layers have MATLAB's
/// factors for new layers, 10 for weights and 20 for biases, unless its learning_rate_factors give others.
/// All other layers begin to learn after head_steps steps. Throws invalid_option for a text that is no list
/// of factors, and for a pattern that matches no learnable.
std::vector<RateFactor> learning_rate_factors(const std::vector<std::string>& learnables,
                                              const NetworkPlan& plan, int64_t head_steps = 0);

}  // namespace lockstep::train
