// What the weights that a training starts from decide of its options: the network, and the input that they
// were trained with.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// How far options may be completed.
struct Completion {
  const std::vector<std::string>& given;  ///< names of options that the user gave with their default values
  const Plan* earlier = nullptr;          ///< of a run that is resumed, which knows its normalisation
};

/// The options with what the weights to start from and the network's file decide of those that were not
/// given:
///   - with --pretrained its network, its file in the cache, and its input;
///   - the input that the network's file expects;
///   - with --weights the input of a published file, which is recognised by its hash, and for a file of a run
///     the run's normalisation and colours.
/// At a resume, what is filled in is the earlier plan's. `own`: a network that was given in place of
/// --network. Throws not_found if a published file is not in the cache; invalid_option if a file leaves the
/// normalisation unknown, and what pretrained_weights throws.
Options completed(const Options& options, const nn::Network& own, const Completion& completion);

/// With --weights: its part of `completed`. --normalize auto becomes none without weights.
Options with_input_of_weights(const Options& options, const Completion& completion);

/// What to tell the user where --normalize differs from what the network of the weights expects for
/// images; else empty.
///   own  as for completed; options as it has completed them
std::string normalization_warning(const Options& options, const nn::Network& own,
                                  const data::ImageFormat& format);

/// --head, where it was not given and --pretrained decides: new for other classes than the published ones.
Head head_for(const Options& options, const std::vector<std::string>& classes, const Completion& completion);

/// For the plan: "trained on ImageNet, published by PyTorch", or empty.
std::string start_reason(const Options& options);

}  // namespace lockstep::train
