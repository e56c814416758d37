// Batch norms as part of the layer before them, for networks that are not trained any more.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/graph.h"
#include "lockstep/nn/layer_tensors.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// For each layer of the graph, whether it is a batch norm that was folded into the convolution or linear
/// layer before it, whose weight and bias in `tensors` are changed. A batch norm after any other layer stays,
/// and so does one whose input has another reader. Computed in float64.
///   type  of the changed tensors; none: that of the weight
std::vector<bool> fold_batch_norms(const LayerGraph& graph, LayerTensors& tensors,
                                   std::optional<at::ScalarType> type = {});

struct FoldedNetwork {
  Network network;  ///< with the graph of the original as its spec
  NamedTensors state;
};

/// The network without the batch norms that can be folded (fold_batch_norms), and its tensors. In evaluation
/// mode it gives the same outputs except for rounding. A user's module, and a network that the tensors do not
/// fit, are returned unchanged.
FoldedNetwork with_folded_batch_norms(const Network& network, NamedTensors state, at::ScalarType type);

}  // namespace lockstep::nn
