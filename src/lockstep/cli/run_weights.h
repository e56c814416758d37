// The weights of a run folder or of a file, for commands that look at them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/nn/safetensors.h"

namespace lockstep::cli {

inline constexpr const char* kFinalWeights = "the final weights";

struct RunWeights {
  nn::NamedTensors tensors{};
  std::string name{};  ///< "the final weights", "the weights after step 300"
};

/// Those of a file (nn::read_weights), the final ones of a run (also without its event log), or those of its
/// last checkpoint; nothing if it has none yet. Throws not_found for what is neither.
std::optional<RunWeights> read_run_weights(const std::filesystem::path& path);

}  // namespace lockstep::cli
