#include "lockstep/train/run/restore.h"

#include <algorithm>
#include <string>

#include <c10/util/StringUtil.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/state.h"

namespace lockstep::train {
namespace {

std::string titled(const nn::NamedTensors::value_type& named) {
  return quote(named.first) + " " + c10::str(named.second.sizes());
}

// Of the first tensor that differs; empty if all fit.
std::string difference(const nn::NamedTensors& targets, const nn::NamedTensors& stored) {
  for (size_t i = 0; i < std::max(targets.size(), stored.size()); ++i) {
    if (i == stored.size()) return "it lacks " + titled(targets[i]);
    if (i == targets.size()) return "it has " + titled(stored[i]) + ", which this network lacks";
    if (stored[i].first != targets[i].first || stored[i].second.sizes() != targets[i].second.sizes())
      return "it has " + titled(stored[i]) + " where this network has " + titled(targets[i]);
  }
  return "";
}

// `where` is for messages.
void check_fit(const nn::NamedTensors& targets, const nn::NamedTensors& stored, const std::string& where) {
  if (const std::string what = difference(targets, stored); !what.empty())
    throw Error(ErrorCode::corrupt_data, where + " belongs to another network: " + what,
                "continue with the network that the run began with, or begin a new run");
}

void copy_into(const nn::NamedTensors& targets, const nn::NamedTensors& stored, const std::string& where) {
  check_fit(targets, stored, where);
  for (size_t i = 0; i < targets.size(); ++i) {
    at::Tensor target = targets[i].second;
    target.copy_(stored[i].second);
  }
}

}  // namespace

void check_module(const nn::Instance& network, const Checkpoint& checkpoint) {
  constexpr const char* kFile = "model.safetensors";
  check_fit(nn::state_of(*network.module), read_tensors(checkpoint, kFile),
            quote((checkpoint.folder / kFile).string()));
}

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
