// Turns a planned layer graph into a module.
#pragma once

#include <memory>

#include "lockstep/nn/graph_plan.h"

namespace lockstep::nn {

/// A module whose tensors are named like the layers; dots make nested modules. The state dict is that of the
/// same torch.nn.Sequential or torchvision model. Weights are drawn in the order of the list. Forward is for
/// one thread at a time. observed: a layer whose output is also read from outside, so that no other layer is
/// computed together with it. Throws out_of_memory if the tensors do not fit.
Instance build_graph(const LayerGraph& graph, const GraphPlan& plan, size_t observed = kInputIndex);

}  // namespace lockstep::nn
