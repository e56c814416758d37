#include "lockstep/cli/run_weights.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/summary.h"
#include "lockstep/train/loop/checkpoint.h"

namespace lockstep::cli {
namespace {

// A damaged checkpoint does not hide weights that are there.
std::optional<train::Checkpoint> newer_than_end(const std::filesystem::path& run) {
  try {
    return train::checkpoint_after_end(run);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<RunWeights> read_run_weights(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path))
    return RunWeights{nn::read_weights(path).tensors, "the weights"};
  const record::RunPaths paths{path};
  if (!record::is_run_folder(path) && !std::filesystem::exists(paths.events())) {
    throw Error(ErrorCode::not_found, "\"" + path.string() + "\" is neither a run folder nor a weights file",
                "name the folder of a run (lockstep runs lists runs), or a file of weights, safetensors or "
                "of torch.save");
  }
  const bool has_ended = std::filesystem::exists(paths.weights());
  const auto checkpoint = has_ended ? newer_than_end(path) : train::last_checkpoint(path);
  if (checkpoint)
    return RunWeights{nn::read_safetensors(checkpoint->folder / paths.weights().filename()).tensors,
                      "the weights after step " + with_commas(checkpoint->state.step)};
  if (has_ended) return RunWeights{nn::read_safetensors(paths.weights()).tensors, kFinalWeights};
  return std::nullopt;
}

}  // namespace lockstep::cli
