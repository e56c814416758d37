#include "lockstep/nn/freeze.h"

#include <algorithm>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/surgery.h"

namespace lockstep::nn {
namespace {

// For a module without learnables: whether the patterns cover its own name.
bool is_frozen(const torch::nn::Module& module, const std::string& name,
               const std::vector<std::string>& patterns) {
  const auto own = module.parameters(/*recurse=*/true);
  if (!own.empty())
    return std::none_of(own.begin(), own.end(),
                        [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return covers(pattern, name); });
}

}  // namespace

bool is_at_or_below(const std::string& name, const std::string& layer) {
  return name == layer || name.starts_with(layer + ".");
}

void freeze(Instance& instance, const std::vector<std::string>& patterns) {
  const auto modules = instance.module->named_modules("", /*include_self=*/false);
  for (const std::string& pattern : patterns) {
    bool found = std::any_of(modules.begin(), modules.end(),
                             [&](const auto& item) { return covers(pattern, item.key()); });
    for (auto& item : instance.module->named_parameters()) {
      if (!covers(pattern, item.key())) continue;
      item.value().requires_grad_(false);
      found = true;
    }
    if (!found)
      throw Error(ErrorCode::invalid_option,
                  "the network has no layer that matches " + in_quotes(pattern) + " and could be frozen",
                  "lockstep network show lists a network's layers; * stands for any text");
  }
  for (const auto& item : modules) {
    if (!is_frozen(*item.value(), item.key(), patterns)) continue;
    instance.held.push_back(item.value());
    item.value()->eval();
  }
}

void begin_training(const Instance& instance) {
  instance.module->train();
  for (const auto& module : instance.held) module->eval();
}

size_t frozen_layers(const Instance& instance) {
  const auto parameters = instance.module->named_parameters();
  const auto modules = instance.module->named_modules("", /*include_self=*/false);
  size_t end = 0;
  bool has_weights = false;
  for (size_t i = 0; i < instance.layers.size(); ++i) {
    const InstanceLayer& layer = instance.layers[i];
    const auto* module = modules.find(layer.name);
    const bool held = module != nullptr &&
                      std::find(instance.held.begin(), instance.held.end(), *module) != instance.held.end();
    const bool learns = std::any_of(parameters.begin(), parameters.end(), [&](const auto& item) {
      return item.value().requires_grad() && is_at_or_below(item.key(), layer.name);
    });
    const bool changes = !held && module != nullptr && !(*module)->buffers().empty();
    if (learns || changes || (layer.random && !held)) break;
    has_weights = has_weights || (module != nullptr && !(*module)->parameters().empty());
    if (layer.ends_part && has_weights) end = i + 1;
  }
  return instance.forward_part && end < instance.layers.size() ? end : 0;
}

}  // namespace lockstep::nn
