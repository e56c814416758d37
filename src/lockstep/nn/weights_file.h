// Weights from a file of whatever kind this program reads.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// A safetensors file, or a state dict of torch.save. What wrappers put before every name ("module." of
/// DataParallel, "_orig_mod." of torch.compile) is taken off. Throws not_found, io, and corrupt_data naming
/// the file and what is wrong.
SafetensorsFile read_weights(const std::filesystem::path& path);

/// "1 number in \"fc.bias\" that is NaN or infinite", counted in the first tensor that has such numbers;
/// empty where all are finite.
std::string not_finite(const NamedTensors& tensors);

/// The built-in network that has tensors of these names, most of them of these shapes; empty where none has.
std::string builtin_network_of(const NamedTensors& tensors);

/// Where trained weights of a built-in network can be had, a sentence for hints; empty where nobody offers
/// any.
std::string where_weights_are(const std::string& network);

}  // namespace lockstep::nn
