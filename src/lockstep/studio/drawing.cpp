#include "lockstep/studio/internal/drawing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::studio {
namespace {

// Names of layers, and which of them have the same name.
std::map<std::string, size_t> index_names(Drawing& drawing) {
  std::map<std::string, size_t> names;
  for (size_t i = 0; i < drawing.layers.size(); ++i) {
    if (!names.emplace(drawing.layers[i].name, i).second)
      drawing.layers[i].error = "two layers are named " + quote(drawing.layers[i].name);
  }
  return names;
}

// Its type, name and options, without its place in the graph.
void read_layer(DrawnLayer& drawn) {
  Json json = drawn.json;
  json.erase("inputs");
  try {
    drawn.layer = nn::read_graph(Json::array({json})).layers.front();
  } catch (const Error& error) {
    drawn.error = error.message();
    drawn.hint = error.hint();
  }
}

void find_order(Drawing& drawing, const std::map<std::string, size_t>& names) {
  std::vector<size_t> missing(drawing.layers.size());
  std::vector<std::vector<size_t>> consumers(drawing.layers.size());
  for (size_t i = 0; i < drawing.layers.size(); ++i) {
    for (const std::string& input : drawing.layers[i].inputs) {
      const auto found = names.find(input);
      if (found == names.end()) continue;
      ++missing[i];
      consumers[found->second].push_back(i);
    }
  }
  std::vector<bool> is_placed(drawing.layers.size());
  const auto place = [&](size_t first) {
    drawing.order.push_back(first);
    is_placed[first] = true;
    for (size_t at = drawing.order.size() - 1; at < drawing.order.size(); ++at) {
      for (const size_t next : consumers[drawing.order[at]]) {
        if (--missing[next] > 0 || is_placed[next]) continue;
        drawing.order.push_back(next);
        is_placed[next] = true;
      }
    }
  };
  for (size_t i = 0; i < drawing.layers.size(); ++i) {
    if (missing[i] == 0 && !is_placed[i]) place(i);
  }
  for (size_t i = 0; i < drawing.layers.size(); ++i) {
    if (is_placed[i]) continue;
    drawing.order.push_back(i);
    DrawnLayer& layer = drawing.layers[i];
    if (layer.error.empty()) {
      layer.error = "layer " + quote(layer.name) + " depends on itself";
      layer.hint = "remove a connection of the cycle";
    }
  }
}

nn::Shape shape_of_input(const nn::NetworkInput& input) {
  return input.time_steps > 0 ? nn::Shape{input.channels, input.time_steps}
                              : nn::Shape{input.channels, input.height, input.width};
}

}  // namespace

std::vector<nn::LayerInput> inputs_of(const Drawing& drawing, const DrawnLayer& layer) {
  std::vector<nn::LayerInput> inputs;
  for (const std::string& name : layer.inputs) {
    if (name == "input") {
      inputs.push_back({name, shape_of_input(drawing.input)});
      continue;
    }
    const auto found = std::find_if(drawing.layers.begin(), drawing.layers.end(),
                                    [&](const DrawnLayer& other) { return other.name == name; });
    if (found == drawing.layers.end() || !found->plan) return {};
    inputs.push_back({name, found->plan->output});
  }
  return inputs;
}

Fit fit(const nn::GraphLayer& layer, const std::vector<nn::LayerInput>& inputs,
        const nn::NetworkInput& input) {
  Json options = layer.options;
  for (const char* key : {"filters", "features"}) {
    if (options.contains(key) && options[key] == "classes") options[key] = input.classes;
  }
  Fit result;
  try {
    nn::LayerPlan plan = layer.type->plan(options, inputs);
    nn::checked_count(plan.output, "outputs");
    for (const nn::TensorPlan& tensor : plan.learnables) nn::checked_count(tensor.shape, "a " + tensor.name);
    result.plan = std::move(plan);
  } catch (const nn::Misfit& misfit) {
    result.message = nn::layer_title(layer) + " " + misfit.message;
    result.hint = misfit.hint;
  } catch (const Error& error) {
    result.message = error.message();
    result.hint = error.hint();
  }
  return result;
}

void plan_drawing(Drawing& drawing) {
  const auto names = index_names(drawing);
  for (DrawnLayer& layer : drawing.layers) {
    if (layer.error.empty()) read_layer(layer);
  }
  find_order(drawing, names);
  for (const size_t index : drawing.order) {
    DrawnLayer& layer = drawing.layers[index];
    if (!layer.layer || !layer.error.empty()) continue;
    const std::vector<nn::LayerInput> inputs = inputs_of(drawing, layer);
    if (inputs.empty()) continue;
    Fit result = fit(*layer.layer, inputs, drawing.input);
    layer.plan = std::move(result.plan);
    layer.error = std::move(result.message);
    layer.hint = std::move(result.hint);
  }
}

}  // namespace lockstep::studio
