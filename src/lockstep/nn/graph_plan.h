// Fits a layer graph to images: computes every layer's shapes before anything is allocated.
#pragma once

#include <vector>

#include "lockstep/nn/graph.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

struct GraphPlan {
  std::vector<LayerPlan> layers;  ///< as listed in the graph
};

/// Throws invalid_option naming the layer that does not fit and, if the size is the reason, the smallest
/// image that would fit.
GraphPlan plan_graph(const LayerGraph& graph, const NetworkInput& input);

/// The graph's output for this input, logits or not. Throws as plan_graph.
Shape output_shape(const LayerGraph& graph, const NetworkInput& input);

}  // namespace lockstep::nn
