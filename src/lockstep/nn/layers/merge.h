// Layers with several inputs.
#pragma once

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// The sum of inputs of equal shape.
LayerPlan plan_add(const NoOptions& options, const std::vector<LayerInput>& inputs);

/// Concatenates images of equal height and width, or features, along the channels: [C1,H,W], [C2,H,W] ->
/// [C1+C2,H,W].
LayerPlan plan_concatenate(const NoOptions& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
