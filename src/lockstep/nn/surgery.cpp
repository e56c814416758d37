#include "lockstep/nn/surgery.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/layers.h"

namespace lockstep::nn {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  size_t at = 0, in = 0, star = std::string_view::npos, resume = 0;
  while (in < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in;
    } else if (at < pattern.size() && pattern[at] == name[in]) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

[[noreturn]] void refuse_surgery(std::string message, std::string hint = {}) {
  throw Error(ErrorCode::invalid_option, std::move(message), std::move(hint));
}

// The list of layers in either format.
Json& layers_in(Json& graph) { return graph.is_array() ? graph : graph["layers"]; }

Json& find_layer(Json& graph, const std::string& name) {
  std::vector<std::string> known;
  for (Json& layer : layers_in(graph)) {
    known.push_back(layer.value("name", std::to_string(known.size())));
    if (known.back() == name) return layer;
  }
  const std::string found = nearest(name, known);
  refuse_surgery("\"change\" names " + in_quotes(name) + ", which is not a layer of its base",
                 found.empty() ? "lockstep network show lists a network's layers"
                               : "did you mean " + in_quotes(found) + "?");
}

// Names that were positions in the list are written out, so that they stay when layers are removed.
Json named_graph(const Network& network, const LayerGraph& graph) {
  Json json = network.spec().is_array() ? Json{{"layers", network.spec()}} : network.spec();
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    Json& layer = json["layers"][i];
    layer["name"] = graph.layers[i].name;
    Json& inputs = layer["inputs"] = Json::array();
    for (const size_t input : graph.layers[i].inputs)
      inputs.push_back(input == kInputIndex ? "input" : graph.layers[input].name);
  }
  return json;
}

const char* outputs_option(const LayerType& type) {
  for (const FieldInfo& option : type.options) {
    if (option.name == "filters" || option.name == "features")
      return option.name == "filters" ? "filters" : "features";
  }
  return nullptr;
}

size_t head_index(const LayerGraph& graph) {
  for (auto index = graph.order.rbegin(); index != graph.order.rend(); ++index) {
    if (outputs_option(*graph.layers[*index].type) != nullptr) return *index;
  }
  refuse_surgery("it has no conv2d or linear layer that could be the head");
}

LayerGraph graph_of(const Network& network) {
  if (network.spec().is_null())
    refuse_surgery("network " + in_quotes(network.name()) +
                       " is a C++ module, which must have a head for the data's classes itself",
                   "build the module with the number of classes of the data");
  return read_graph(network.spec());
}

Surgery drop(const Network& network, const LayerGraph& graph, const NetworkInput& input, int64_t count) {
  const auto layer_count = static_cast<int64_t>(graph.order.size());
  if (count >= layer_count)
    refuse_surgery("cannot drop " + std::to_string(count) + " layers of " + in_quotes(network.name()) +
                   ": it has " + std::to_string(layer_count));
  Surgery surgery;
  for (auto index = graph.order.end() - count; index != graph.order.end(); ++index)
    surgery.dropped.push_back(graph.layers[*index].name);
  const Json whole = named_graph(network, graph);
  Json left = whole;
  left["layers"] = Json::array();
  for (const Json& layer : whole["layers"]) {
    const auto& name = layer["name"].get_ref<const std::string&>();
    if (std::find(surgery.dropped.begin(), surgery.dropped.end(), name) == surgery.dropped.end())
      left["layers"].push_back(layer);
  }
  const LayerGraph rest =
      with_context([&] { return "after " + std::to_string(count) + " layers were removed"; },
                   [&] { return read_graph(left); });
  const Shape shape = output_shape(rest, input);
  std::string last = rest.layers[rest.output].name;
  const auto add = [&](const char* name, Json layer) {
    layer["name"] = name;
    layer["inputs"] = Json::array({last});
    left["layers"].push_back(std::move(layer));
    last = name;
  };
  if (shape.size() == 2)
    refuse_surgery("cannot put a new head after " + in_quotes(last) + ", which returns a sequence",
                   "remove more or fewer layers");
  if (shape.size() == 3) {
    add("head.pool", {{"type", "global_average_pool"}});
    add("head.flatten", {{"type", "flatten"}});
  }
  add("head.linear", {{"type", "linear"}, {"features", "classes"}});
  surgery.fresh = {last};
  surgery.network = read_network(left, network.name());
  return surgery;
}

}  // namespace

bool covers(const std::string& pattern, const std::string& name) {
  for (size_t end = name.size(); end != std::string::npos && end > 0; end = name.rfind('.', end - 1)) {
    if (matches(pattern, std::string_view(name).substr(0, end))) return true;
  }
  return false;
}

Json with_changes_made(const Json& json) {
  if (!json.is_object() || !json.contains("base")) return json;
  for (const auto& [key, value] : json.items()) {
    if (key != "base" && key != "change" && key != "input" && key != "name")
      refuse_surgery("a changed network has no entry " + in_quotes(key),
                     "known entries are base, change, input, name");
  }
  const std::vector<std::string> known = builtin_network_names();
  const Json& base = json["base"];
  const auto found = std::find_if(builtin_networks().begin(), builtin_networks().end(),
                                  [&](const BuiltinNetwork& network) { return base == network.name; });
  if (found == builtin_networks().end())
    refuse_surgery("\"base\" must be a built-in network", "built-in networks are " + join(known, ", "));
  Json graph = found->graph();
  if (graph.is_array()) graph = Json{{"layers", graph}};
  const Json changes = json.value("change", Json::object());
  if (!changes.is_object())
    refuse_surgery("\"change\" must be an object of layers",
                   "write it like \"change\": {\"classifier.1\": {\"padding\": 1}}");
  for (const auto& [name, options] : changes.items()) {
    Json& layer = find_layer(graph, name);
    if (!options.is_object())
      refuse_surgery("the change of " + in_quotes(name) + " must be an object of options");
    for (const auto& [option, value] : options.items()) layer[option] = value;
  }
  for (const char* key : {"input", "name"}) {
    if (json.contains(key)) graph[key] = json[key];
  }
  return graph;
}

Json expected_input(const Network& network) {
  return network.spec().is_object() ? network.spec().value("input", Json::object()) : Json::object();
}

std::optional<std::pair<int64_t, int64_t>> two_sizes(const std::string& text) {
  const std::vector<std::string> sides = split(text, 'x');
  const auto is_number = [](const std::string& side) {
    return !side.empty() && side.size() < 6 && side.find_first_not_of("0123456789") == std::string::npos &&
           side[0] != '0';
  };
  if (sides.size() != 2 || !is_number(sides[0]) || !is_number(sides[1])) return std::nullopt;
  return std::pair<int64_t, int64_t>(std::stoll(sides[0]), std::stoll(sides[1]));
}

NetworkInput sized_as_expected(const Json& expected, NetworkInput input) {
  if (const auto size = expected.find("image-size"); size != expected.end()) {
    const auto sides = two_sizes(size->is_string() ? size->get<std::string>() : "");
    if (!sides)
      throw Error(ErrorCode::invalid_option, "\"image-size\" of the network's \"input\" cannot be " +
                                                 size->dump() + ": it must be HxW, such as 28x28");
    std::tie(input.height, input.width) = *sides;
    input.time_steps = 0;
  }
  const auto color = expected.find("color");
  if (color != expected.end() && *color == "rgb") input.channels = 3;
  if (color != expected.end() && *color == "grey") input.channels = 1;
  return input;
}

std::string head_of(const Network& network) {
  const LayerGraph graph = graph_of(network);
  return graph.layers[head_index(graph)].name;
}

Surgery with_new_head(const Network& network, const NetworkInput& input, int64_t drop_layers) {
  return with_context([&] { return "in network " + in_quotes(network.name()); },
                      [&]() -> Surgery {
                        const LayerGraph graph = graph_of(network);
                        if (drop_layers > 0) return drop(network, graph, input, drop_layers);
                        const size_t head = head_index(graph);
                        Json json = network.spec();
                        layers_in(json)[head][outputs_option(*graph.layers[head].type)] = "classes";
                        return {read_network(json, network.name()), {graph.layers[head].name}, {}};
                      });
}

Surgery with_new_layers(const Network& network, const NetworkInput& input,
                        const std::vector<std::string>& patterns, const NamedTensors& trained) {
  Surgery surgery{network, {}, {}};
  std::set<std::string> known, used, dropped;
  for (const LayerRow& row : inspect_network(network, input).rows) {
    if (row.learnables.empty() && row.states.empty()) continue;
    known.insert(row.name);
    bool is_new = false;
    for (const std::string& pattern : patterns) {
      if (!covers(pattern, row.name)) continue;
      used.insert(pattern);
      is_new = true;
    }
    if (is_new) surgery.fresh.push_back(row.name);
  }
  for (const std::string& pattern : patterns) {
    if (!used.contains(pattern))
      refuse_surgery("network " + in_quotes(network.name()) + " has no layer with weights that " +
                         in_quotes(pattern) + " covers",
                     "lockstep network show lists its layers");
  }
  for (const auto& [name, tensor] : trained) {
    const std::string layer = name.substr(0, name.rfind('.'));
    if (!known.contains(layer) && dropped.insert(layer).second) surgery.dropped.push_back(layer);
  }
  return surgery;
}

}  // namespace lockstep::nn
