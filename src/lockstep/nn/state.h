// The tensors of a module by name, as PyTorch's state_dict has them.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/safetensors.h"

namespace torch::nn {
class Module;
}

namespace lockstep::nn {

/// Parameters and buffers in the order of PyTorch's state_dict: those of a module, parameters first, then
/// those of its children in the order they were registered. The tensors are detached and share the module's
/// memory as it is at this call.
NamedTensors state_of(const torch::nn::Module& module);

/// Where a file is of a network that has been changed since.
struct LoadOptions {
  std::vector<std::string> fresh = {};    ///< modules ("classifier.1", with all below them) that keep the
                                          ///< weights they have, whatever the file has there
  std::vector<std::string> dropped = {};  ///< modules that the file may have and the network has not
};

/// Copies the file's tensors into the module's, by name; types and devices are converted, so a float32 file
/// loads into a float64 module. Strict: throws corrupt_data that names what is missing, unexpected or has
/// another shape, and then has changed nothing. Only a missing num_batches_tracked is taken as 0, as PyTorch
/// does. `source` is the file's name for messages. A name in options.fresh that no tensor of the module has
/// is invalid_option.
void load_state(torch::nn::Module& module, const SafetensorsFile& file, const std::string& source,
                const LoadOptions& options = {});

/// Turns the module's floating-point tensors into `type`, in place, and leaves whole numbers alone, as
/// Module.to does in Python. LibTorch's own Module::to would make num_batches_tracked floating too.
void convert_floating(torch::nn::Module& module, at::ScalarType type);

}  // namespace lockstep::nn
