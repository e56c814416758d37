// Finds the mistakes in a user's module that would cost a training, before it begins.
#pragma once

#include <string>

#include <c10/core/ScalarType.h>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// Runs a user's module in training mode on two made-up images [2,C,H,W] of `type`, to which its parameters
/// are converted. Buffers and random numbers are as before. Sequences are not run. Throws invalid_option,
/// with the network's name, if
///   - two of its parameters are one tensor,
///   - its forward throws,
///   - it does not give [2,classes],
///   - the result depends on no parameter that learns, or on a tensor that requires a gradient and is not
///     registered.
void check_module(const std::string& name, const Instance& instance, const NetworkInput& input,
                  c10::ScalarType type);

}  // namespace lockstep::nn
