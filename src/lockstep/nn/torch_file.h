// State dicts as torch.save writes them since PyTorch 1.6: a zip of a pickle and the tensors' bytes.
#pragma once

#include <filesystem>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// Reads a file without trusting it and without running its pickle (see internal/pickle.h). Sizes are checked
/// against the file's before memory is taken: all tensors together have at most 32 times its bytes. Takes a
/// state dict, and a dict that holds one as "state_dict", "model_state_dict" or "model". Tensors may share
/// memory with one another. Throws corrupt_data naming the file and what is wrong.
SafetensorsFile read_torch_file(const std::filesystem::path& path);

}  // namespace lockstep::nn
