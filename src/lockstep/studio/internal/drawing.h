// A layer graph while it is drawn: layers without inputs, inputs that are nowhere, layers that do not fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/network.h"

namespace lockstep::studio {

struct DrawnLayer {
  std::string name;
  Json json;  // as drawn
  std::vector<std::string> inputs{};
  std::optional<nn::GraphLayer> layer{};  // if its type and options are right
  std::optional<nn::LayerPlan> plan{};    // if its inputs are known and fit
  std::string error{};
  std::string hint{};
};

struct Drawing {
  nn::NetworkInput input;
  std::vector<DrawnLayer> layers;
  std::vector<size_t> order{};  // every layer once, after its inputs where there is no cycle
};

/// Fills in layer, plan, error and hint of each layer, and the order.
void plan_drawing(Drawing& drawing);

/// The layer's plan on these inputs, or what does not fit.
struct Fit {
  std::optional<nn::LayerPlan> plan{};
  std::string message{};
  std::string hint{};
};
Fit fit(const nn::GraphLayer& layer, const std::vector<nn::LayerInput>& inputs,
        const nn::NetworkInput& input);

/// The inputs of a layer as far as all of them are known; empty: they are not.
std::vector<nn::LayerInput> inputs_of(const Drawing& drawing, const DrawnLayer& layer);

/// Changes after which the layer fits: [{"text", "edits"}]. An edit is {"insert": layer without name and
/// inputs, "before": name, "input": position}, {"append": layer}, {"set": option, "of": name, "to": value} or
/// {"remove": name}; edits of one fix are made one after the other.
Json fixes_of_layer(const Drawing& drawing, size_t index);

/// The same for a last layer that does not give logits.
Json fixes_of_end(const Drawing& drawing, const std::string& last);

}  // namespace lockstep::studio
