// State dicts in the formats of torch.save: a zip with a pickle and the tensors' bytes, and the format before
// PyTorch 1.6, in which vgg16's published weights are.
#pragma once

#include <filesystem>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// Reads an untrusted file without running its pickle (see internal/pickle.h). Sizes are checked against the
/// file's size before memory is allocated: all tensors together have at most 32 times its bytes. Accepts a
/// state dict, and a dict that contains one as "state_dict", "model_state_dict" or "model". Tensors may share
/// memory. Throws corrupt_data naming the file and the problem.
SafetensorsFile read_torch_file(const std::filesystem::path& path);

}  // namespace lockstep::nn
