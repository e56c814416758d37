// Batch norms as part of the layer before them.
#pragma once

#include <vector>

#include "lockstep/nn/graph.h"
#include "lockstep/onnx/internal/layer_tensors.h"

namespace lockstep::onnx {

/// For each layer of the graph, whether it is a batch norm that was folded into the convolution or linear
/// layer before it, whose weight and bias in `tensors` are changed. A batch norm after any other layer stays,
/// and so does one whose input has another reader. Computed in float64.
std::vector<bool> fold_batch_norms(const nn::LayerGraph& graph, LayerTensors& tensors);

}  // namespace lockstep::onnx
