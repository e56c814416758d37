// Chooses the network and makes its first instance.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/data/transform.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The built-in network for samples of this format (--network auto), and the reason in words.
std::pair<nn::Network, std::string> default_network(const data::ImageFormat& format);

constexpr int64_t kFewImages = 10'000;  ///< fewer are too few for large networks with random weights

/// Whether they are images of at least 64 pixels per side, and too few for random weights.
bool are_few_photographs(const data::ImageFormat& format, int64_t count);

struct NetworkChoice {
  nn::Network network;     ///< with the head that it is trained with
  nn::Instance prototype;  ///< with its first weights, in training mode
  NetworkPlan plan;
};

/// Puts on a new head if asked, makes the first instance, and counts what is learned. Throws invalid_option
/// for options of transfer learning that do not suit the network; not_found and corrupt_data for weights.
///   step  its seed and tbptt_length are read
NetworkChoice make_network(const nn::Network& network, const nn::NetworkInput& input, const Options& options,
                           const StepPlan& step);

}  // namespace lockstep::train
