#include "lockstep/onnx/internal/folded_batch_norm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lockstep/nn/layers/normalization.h"

namespace lockstep::onnx {
namespace {

std::vector<size_t> reader_counts(const nn::LayerGraph& graph) {
  std::vector<size_t> counts(graph.layers.size());
  for (const nn::GraphLayer& layer : graph.layers) {
    for (const size_t input : layer.inputs) {
      if (input != nn::kInputIndex) ++counts[input];
    }
  }
  return counts;
}

void fold(const nn::GraphLayer& norm, const std::string& before, LayerTensors& tensors) {
  nn::BatchNorm options;
  read_json(norm.options, options, "");
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
  const at::ScalarType type = tensors.at(before, "weight").scalar_type();
  tensors.set(before, "weight", (weight * factor.view(rows)).to(type));
  tensors.set(before, "bias", folded.to(type));
}

}  // namespace

std::vector<bool> fold_batch_norms(const nn::LayerGraph& graph, LayerTensors& tensors) {
  const std::vector<size_t> readers = reader_counts(graph);
  std::vector<bool> folded(graph.layers.size());
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const nn::GraphLayer& norm = graph.layers[i];
    if (norm.type->name != "batch_norm") continue;
    const size_t from = norm.inputs.front();
    if (from == nn::kInputIndex || readers[from] != 1) continue;
    const nn::GraphLayer& before = graph.layers[from];
    if (before.type->name != "conv2d" && before.type->name != "linear") continue;
    fold(norm, before.name, tensors);
    folded[i] = true;
  }
  return folded;
}

}  // namespace lockstep::onnx
