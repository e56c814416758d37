// The tensors of a module by name, as in PyTorch's state_dict.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/safetensors.h"

namespace torch::nn {
class Module;
}

namespace lockstep::nn {

/// Parameters and buffers in the order of PyTorch's state_dict: those of a module (parameters first), then
/// those of its children in the order of registration. The tensors are detached and share the module's memory
/// as of this call.
NamedTensors state_of(const torch::nn::Module& module);

/// Differences between a file and a network that was changed after the file was written.
struct LoadOptions {
  std::vector<std::string> fresh = {};    ///< modules ("classifier.1", with all below them) that keep their
                                          ///< current weights; those in the file are ignored
  std::vector<std::string> dropped = {};  ///< modules that the file may have but the network does not have
};

/// Copies the file's tensors into the module's tensors, by name. Types and devices are converted, so a
/// float32 file loads into a float64 module. Strict: throws corrupt_data naming tensors that are missing,
/// unexpected or of another shape, and then changes nothing. As in PyTorch, only a missing
/// num_batches_tracked is set to 0. `source` is the file's name for messages. Throws invalid_option for a
/// name in options.fresh that no tensor of the module has.
void load_state(torch::nn::Module& module, const SafetensorsFile& file, const std::string& source,
                const LoadOptions& options = {});

/// Converts the module's floating-point tensors to `type`, in place, and leaves integers unchanged, like
/// Module.to in Python. LibTorch's Module::to would also convert num_batches_tracked.
void convert_floating(torch::nn::Module& module, at::ScalarType type);

}  // namespace lockstep::nn
