// Parses a layer graph from JSON and checks everything that does not depend on the images.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// The network's input, used in place of the index of a layer.
inline constexpr size_t kInputIndex = std::numeric_limits<size_t>::max();

struct GraphLayer {
  std::string name;
  const LayerType* type = nullptr;
  std::vector<size_t> inputs;  ///< indices of layers, or kInputIndex
  Json options;                ///< without name, type and inputs; with the initializer that applies to it
};

/// Checked: names are unique, there is no cycle, one layer is the output.
struct LayerGraph {
  std::vector<GraphLayer> layers;  ///< as listed; modules are registered in this order
  std::vector<size_t> order;       ///< order of evaluation: as listed if possible
  size_t output = 0;
};

/// Throws invalid_option naming the layer and the problem.
LayerGraph read_graph(const Json& json);

/// Parses untrusted text (parse_json); a duplicate key in an object is an error. Throws invalid_option.
Json parse_network_json(const std::string& text);

/// `layer "conv1" (conv2d)`
std::string layer_title(const GraphLayer& layer);

}  // namespace lockstep::nn
