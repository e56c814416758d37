// Programs that build the same network without Lockstep.
#pragma once

#include <string>

#include "lockstep/nn/network.h"

namespace lockstep::onnx {

/// A Python file with a torch.nn.Module `Network`, whose state_dict has the names and shapes of the weights.
/// A pure function. Throws invalid_option for a C++ module, a layer that PyTorch lacks, and a name of a layer
/// that torch.nn.Module uses itself.
std::string pytorch_code(const nn::Network& network, const nn::NetworkInput& input);

/// A C++ file on LibTorch with a torch::nn module `Network`, which nn::network (nn/module.h) accepts too. The
/// same otherwise.
std::string cpp_code(const nn::Network& network, const nn::NetworkInput& input);

}  // namespace lockstep::onnx
