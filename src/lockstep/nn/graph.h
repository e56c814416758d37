// A layer graph as it stands in JSON, read and checked as far as that goes without knowing the images.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// Stands for the network's input where an index of a layer is asked for.
inline constexpr size_t kInputIndex = std::numeric_limits<size_t>::max();

struct GraphLayer {
  std::string name;
  const LayerType* type = nullptr;
  std::vector<size_t> inputs;  ///< indices of layers, or kInputIndex
  Json options;                ///< without name, type and inputs; with the initializer that holds for it
};

/// Checked: names are unique, there is no cycle, one layer gives the output.
struct LayerGraph {
  std::vector<GraphLayer> layers;  ///< as listed; modules are registered in this order
  std::vector<size_t> order;       ///< of evaluation: as listed where that can be done
  size_t output = 0;
};

/// Throws invalid_option naming the layer and what is wrong with it.
LayerGraph read_graph(const Json& json);

/// Parses text that nobody vouches for (parse_json); a key that stands twice in an object is an error. Throws
/// invalid_option.
Json parse_network_json(const std::string& text);

/// `layer "conv1" (conv2d)`
std::string layer_title(const GraphLayer& layer);

}  // namespace lockstep::nn
