#include "lockstep/nn/folded_batch_norm.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lockstep/nn/graph_network.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/layers/normalization.h"

namespace lockstep::nn {
namespace {

std::vector<size_t> reader_counts(const LayerGraph& graph) {
  std::vector<size_t> counts(graph.layers.size());
  for (const GraphLayer& layer : graph.layers) {
    for (const size_t input : layer.inputs) {
      if (input != kInputIndex) ++counts[input];
    }
  }
  return counts;
}

std::vector<bool> foldable_batch_norms(const LayerGraph& graph) {
  const std::vector<size_t> readers = reader_counts(graph);
  std::vector<bool> foldable(graph.layers.size());
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const size_t from = graph.layers[i].inputs.front();
    if (graph.layers[i].type->name != "batch_norm" || from == kInputIndex || readers[from] != 1) continue;
    const std::string& before = graph.layers[from].type->name;
    foldable[i] = before == "conv2d" || before == "linear";
  }
  return foldable;
}

BatchNorm norm_options(const GraphLayer& norm) {
  BatchNorm options;
  read_json(norm.options, options, "");
  return options;
}

void fold(const GraphLayer& norm, const std::string& before, LayerTensors& tensors,
          std::optional<at::ScalarType> type) {
  const BatchNorm options = norm_options(norm);
  const auto number = [&](const std::string& layer, const char* tensor) {
    return tensors.at(layer, tensor).to(at::kDouble);
  };
  const at::Tensor mean = number(norm.name, "running_mean");
  at::Tensor factor = (number(norm.name, "running_var") + options.epsilon).rsqrt();
  if (options.affine) factor = factor * number(norm.name, "weight");
  const at::Tensor weight = number(before, "weight");
  std::vector<int64_t> rows(static_cast<size_t>(weight.dim()), 1);
  rows[0] = -1;
  const at::Tensor bias = tensors.has(before, "bias") ? number(before, "bias") : at::zeros_like(mean);
  at::Tensor folded = (bias - mean) * factor;
  if (options.affine) folded = folded + number(norm.name, "bias");
  const at::ScalarType wanted = type.value_or(tensors.at(before, "weight").scalar_type());
  tensors.set(before, "weight", (weight * factor.view(rows)).to(wanted));
  tensors.set(before, "bias", folded.to(wanted));
}

// Whether the batch norm and the layer before it have their tensors, with as many channels as the weight has
// outputs.
bool has_tensors(const GraphLayer& norm, const GraphLayer& before, const LayerTensors& tensors) {
  if (!tensors.has(before.name, "weight") || tensors.at(before.name, "weight").dim() < 1) return false;
  const int64_t channels = tensors.at(before.name, "weight").size(0);
  const auto fits = [&](const GraphLayer& layer, const char* tensor) {
    return tensors.has(layer.name, tensor) &&
           tensors.at(layer.name, tensor).sizes() == at::IntArrayRef(channels);
  };
  const bool affine = !norm_options(norm).affine || (fits(norm, "weight") && fits(norm, "bias"));
  return affine && fits(norm, "running_mean") && fits(norm, "running_var") &&
         (!tensors.has(before.name, "bias") || fits(before, "bias"));
}

// The readers of a removed batch norm read the layer before it, which has a bias then.
LayerGraph without_layers(const LayerGraph& graph, const std::vector<bool>& removed) {
  LayerGraph result;
  std::vector<size_t> place(graph.layers.size());
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    place[i] = result.layers.size();
    if (!removed[i]) result.layers.push_back(graph.layers[i]);
  }
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (!removed[i]) continue;
    place[i] = place[graph.layers[i].inputs.front()];
    result.layers[place[i]].options["bias"] = true;
  }
  for (GraphLayer& layer : result.layers) {
    for (size_t& input : layer.inputs) {
      if (input != kInputIndex) input = place[input];
    }
  }
  for (const size_t index : graph.order) {
    if (!removed[index]) result.order.push_back(place[index]);
  }
  result.output = place[graph.output];
  return result;
}

std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

std::string name_in_layer(const std::string& tensor) { return tensor.substr(tensor.rfind('.') + 1); }

}  // namespace

std::vector<bool> fold_batch_norms(const LayerGraph& graph, LayerTensors& tensors,
                                   std::optional<at::ScalarType> type) {
  const std::vector<bool> foldable = foldable_batch_norms(graph);
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const GraphLayer& norm = graph.layers[i];
    if (foldable[i]) fold(norm, graph.layers[norm.inputs.front()].name, tensors, type);
  }
  return foldable;
}

FoldedNetwork with_folded_batch_norms(const Network& network, NamedTensors state, at::ScalarType type) {
  if (network.spec().is_null()) return {network, std::move(state)};
  const LayerGraph graph = read_graph(network.spec());
  const std::vector<bool> foldable = foldable_batch_norms(graph);
  LayerTensors tensors(state);
  std::set<std::string> removed, changed;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (!foldable[i]) continue;
    const GraphLayer& before = graph.layers[graph.layers[i].inputs.front()];
    if (!has_tensors(graph.layers[i], before, tensors)) return {network, std::move(state)};
    removed.insert(graph.layers[i].name);
    changed.insert(before.name);
  }
  fold_batch_norms(graph, tensors, type);
  NamedTensors folded;
  for (const auto& [name, tensor] : std::exchange(state, {})) {
    const std::string layer = layer_of(name), own = name_in_layer(name);
    if (removed.contains(layer) || (changed.contains(layer) && own == "bias")) continue;
    const bool is_changed = changed.contains(layer) && own == "weight";
    folded.emplace_back(name, is_changed ? tensors.at(layer, own) : tensor);
    if (is_changed) folded.emplace_back(layer + ".bias", tensors.at(layer, "bias"));
  }
  const auto rest = std::make_shared<const LayerGraph>(without_layers(graph, foldable));
  return {Network(
              network.name(),
              [rest](const NetworkInput& input) { return build_graph(*rest, plan_graph(*rest, input)); },
              network.spec()),
          std::move(folded)};
}

}  // namespace lockstep::nn
