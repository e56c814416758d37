#include "lockstep/train/run/restore.h"

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/nn/state.h"

namespace lockstep::train {
namespace {

// `where` is for messages.
void copy_into(const nn::NamedTensors& targets, const nn::NamedTensors& stored, const std::string& where) {
  if (stored.size() != targets.size())
    throw Error(ErrorCode::corrupt_data, where + " belongs to another network");
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto& [name, tensor] = stored[i];
    at::Tensor target = targets[i].second;
    if (name != targets[i].first || tensor.sizes() != target.sizes()) {
      throw Error(ErrorCode::corrupt_data, where + " belongs to another network: it has \"" + name +
                                               "\" in the place of \"" + targets[i].first + "\"");
    }
    target.copy_(tensor);
  }
}

}  // namespace

void restore(Training& training, const Checkpoint& checkpoint) {
  const auto read_into = [&](const nn::NamedTensors& targets, const char* file) {
    copy_into(targets, read_tensors(checkpoint, file), "\"" + (checkpoint.folder / file).string() + "\"");
  };
  read_into(training.weights().state(), "model.safetensors");
  read_into(training.optimizer_state(), "optimizer.safetensors");
}

void restore(Training& training, const Standing& standing) {
  const std::string where = "the training that this fit continues";
  copy_into(training.weights().state(), standing.snapshot.weights, where);
  copy_into(training.optimizer_state(), standing.snapshot.optimizer, where);
}

}  // namespace lockstep::train
