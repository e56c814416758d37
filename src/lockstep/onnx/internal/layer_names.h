// Names for imported layers.
#pragma once

#include <string>
#include <vector>

#include "lockstep/onnx/internal/values.h"

namespace lockstep::onnx {

/// A name for each layer, fit for a layer graph: that of its weight in the file without the last part
/// ("layer1.0.conv1"), else its scope in the file, else its type with a number ("relu_2").
///   own_names  whether the nodes have the names of layers, as Lockstep writes them
std::vector<std::string> names_of(const std::vector<LayerDraft>& layers, bool own_names);

}  // namespace lockstep::onnx
