// Reads weights from a file in any supported format.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// A safetensors file, or a state dict of torch.save. Prefixes that wrappers add to every name ("module." of
/// DataParallel, "_orig_mod." of torch.compile) are removed. Throws not_found, io, and corrupt_data naming
/// the file and the problem.
SafetensorsFile read_weights(const std::filesystem::path& path);

/// "1 number in \"fc.bias\" that is NaN or infinite", counted in the first tensor with such numbers; empty if
/// all are finite.
std::string not_finite(const NamedTensors& tensors);

/// The built-in network that has tensors with these names, most of them with these shapes; empty if there is
/// none.
std::string builtin_network_of(const NamedTensors& tensors);

/// How to start from the published weights of a built-in network, as a sentence for hints; empty if nobody
/// publishes any.
std::string where_weights_are(const std::string& network);

}  // namespace lockstep::nn
