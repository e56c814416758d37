// Proposes changes to a drawing in which a layer does not fit. Each proposal is tried before it is made.
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/studio/internal/drawing.h"

namespace lockstep::studio {
namespace {

constexpr size_t kMostFixes = 3;

nn::GraphLayer layer_of(Json json) {
  json["name"] = "proposed";
  return nn::read_graph(Json::array({json})).layers.front();
}

// What these layers, one after the other, make of an input.
std::optional<nn::Shape> through(const std::vector<Json>& layers, nn::LayerInput input,
                                 const nn::NetworkInput& network_input) {
  for (const Json& json : layers) {
    const Fit result = fit(layer_of(json), {input}, network_input);
    if (!result.plan) return std::nullopt;
    input = {"proposed", result.plan->output};
  }
  return input.shape;
}

std::string names_of(const std::vector<Json>& layers) {
  std::vector<std::string> names;
  for (const Json& layer : layers) {
    std::string name = layer["type"].get<std::string>();
    if (layer.contains("filters")) name += " of " + layer["filters"].dump() + " filters 1x1";
    names.push_back(name);
  }
  return join(names, " and ");
}

class Proposals {
 public:
  Proposals(const Drawing& drawing, const DrawnLayer& drawn)
      : drawing_(drawing), drawn_(drawn), inputs_(inputs_of(drawing, drawn)) {}

  Json take() {
    if (!drawn_.layer || inputs_.empty()) return fixes_;
    const std::vector<Json> flatten{{{"type", "flatten"}}};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      insert(flatten, i);
      insert({{{"type", "global_average_pool"}}, {{"type", "flatten"}}}, i);
      for (size_t j = 0; j < inputs_.size(); ++j) {
        if (i != j) project(i, inputs_[j].shape);
      }
    }
    if (inputs_.size() == 1) {
      shrink_window();
      change("output", "sequence");
      change("groups", 1);
    }
    return fixes_;
  }

 private:
  bool fits_with(const nn::GraphLayer& layer, size_t position, const nn::Shape& shape) const {
    std::vector<nn::LayerInput> inputs = inputs_;
    inputs[position].shape = shape;
    return fit(layer, inputs, drawing_.input).plan.has_value();
  }

  void add(std::string text, Json edits) {
    if (fixes_.size() < kMostFixes)
      fixes_.push_back({{"text", std::move(text)}, {"edits", std::move(edits)}});
  }

  void insert(const std::vector<Json>& layers, size_t position) {
    const auto shape = through(layers, inputs_[position], drawing_.input);
    if (!shape || !fits_with(*drawn_.layer, position, *shape)) return;
    Json edits = Json::array();
    for (const Json& layer : layers)
      edits.push_back({{"insert", layer}, {"before", drawn_.name}, {"input", position}});
    const std::string where =
        inputs_.size() == 1 ? "" : ", between " + quote(inputs_[position].name) + " and this layer";
    add("Insert " + names_of(layers) + " before " + quote(drawn_.name) + where, std::move(edits));
  }

  // A convolution that gives one input the shape of another one.
  void project(size_t position, const nn::Shape& wanted) {
    const nn::Shape& have = inputs_[position].shape;
    if (have.size() != 3 || wanted.size() != 3 || wanted[1] < 1 || have[1] < wanted[1]) return;
    const int64_t stride = (have[1] + wanted[1] - 1) / wanted[1];
    Json layer{{"type", "conv2d"}, {"filters", wanted[0]}, {"kernel", 1}};
    if (stride > 1) layer["stride"] = stride;
    insert({layer}, position);
  }

  void change(const char* option, const Json& value) {
    nn::GraphLayer layer = *drawn_.layer;
    layer.options[option] = value;
    try {
      layer.type->check(layer.options);
    } catch (const Error&) {
      return;  // it has no such option
    }
    if (!fit(layer, inputs_, drawing_.input).plan) return;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    add("Set " + std::string(option) + " of " + quote(drawn_.name) + " to " + text,
        Json::array({{{"set", option}, {"of", drawn_.name}, {"to", value}}}));
  }

  // The largest window that fits.
  void shrink_window() {
    const auto kernel = drawn_.layer->options.find("kernel");
    if (kernel == drawn_.layer->options.end() || !kernel->is_array() || kernel->empty()) return;
    const size_t before = fixes_.size();
    for (int64_t size = kernel->front().get<int64_t>() - 1; size > 0 && fixes_.size() == before; --size)
      change("kernel", Json::array({size}));
  }

  const Drawing& drawing_;
  const DrawnLayer& drawn_;
  std::vector<nn::LayerInput> inputs_;
  Json fixes_ = Json::array();
};

}  // namespace

Json fixes_of_layer(const Drawing& drawing, size_t index) {
  return Proposals(drawing, drawing.layers[index]).take();
}

Json fixes_of_end(const Drawing& drawing, const std::string& last) {
  Json fixes = Json::array();
  for (const DrawnLayer& layer : drawing.layers) {
    if (layer.name != last || !layer.plan) continue;
    const Json head{{"type", "linear"}, {"features", "classes"}};
    const Json flatten{{"type", "flatten"}};
    const nn::LayerInput output{last, layer.plan->output};
    if (through({head}, output, drawing.input)) {
      fixes.push_back({{"text", "Append a linear layer with one output for each class"},
                       {"edits", Json::array({{{"append", head}}})}});
    } else if (through({flatten, head}, output, drawing.input)) {
      fixes.push_back({{"text", "Append flatten and a linear layer with one output for each class"},
                       {"edits", Json::array({{{"append", flatten}}, {{"append", head}}})}});
    }
    if (!layer.plan->gives_logits)
      fixes.push_back({{"text", "Remove " + quote(last)}, {"edits", Json::array({{{"remove", last}}})}});
  }
  return fixes;
}

}  // namespace lockstep::studio
