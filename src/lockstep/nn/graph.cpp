#include "lockstep/nn/graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kMostLayers = 10'000;
constexpr size_t kMostNameBytes = 200;
constexpr size_t kMostListItems = 16;  // in a list option; kernels have two
constexpr size_t kMostTextBytes = 1'000;
constexpr size_t kMostInputBytes = size_t{1} << 20;  // "normalize" has two numbers for each channel

[[noreturn]] void refuse(std::string message, std::string hint = {}) {
  throw Error(ErrorCode::invalid_option, std::move(message), std::move(hint));
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string found = nearest(word.substr(0, kMostNameBytes), known);
  return found.empty() ? "known are " + join(known, ", ") : "did you mean \"" + found + "\"?";
}

/// Options are numbers, texts, booleans or short lists of numbers; nested values are refused here.
void check_value(const std::string& where, const std::string& key, const Json& value) {
  bool good = value.is_number() || value.is_boolean() ||
              (value.is_string() && value.get_ref<const std::string&>().size() <= kMostTextBytes);
  if (value.is_array() && value.size() <= kMostListItems)
    good = std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number(); });
  if (!good)
    refuse(where + ": " + in_quotes(key) +
           " must be a number, a text, true, false or a short list of numbers");
}

std::string text_at(const Json& json, const char* key, const std::string& where,
                    size_t most_bytes = kMostTextBytes) {
  const Json& value = json.at(key);
  if (!value.is_string()) refuse(where + ": \"" + key + "\" must be a text");
  if (const size_t bytes = value.get_ref<const std::string&>().size(); bytes > most_bytes)
    refuse(where + ": \"" + key + "\" must be a text of at most " +
           with_commas(static_cast<int64_t>(most_bytes)) + " bytes, and has " +
           with_commas(static_cast<int64_t>(bytes)));
  return value.get<std::string>();
}

void check_name(const std::string& name) {
  const std::vector<std::string> parts = split(name, '.');
  const bool empty_part =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
  if (empty_part || printable(name) != name || name.find_first_of(" \"") != std::string::npos ||
      name.size() > kMostNameBytes) {
    refuse("a layer cannot be named " + in_quotes(name),
           "use up to 200 letters and digits; dots separate the parts, as in \"layer1.0.conv1\"");
  }
  if (name == "input")
    refuse("a layer cannot be named \"input\", because that is the name of the network's input");
}

const LayerType& find_type(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const LayerType& type : layer_types()) {
    if (type.name == name) return type;
    known.push_back(type.name);
  }
  refuse(where + " has the unknown type " + in_quotes(name), suggestion(name, known));
}

bool has_option(const LayerType& type, const std::string& name) {
  return std::any_of(type.options.begin(), type.options.end(),
                     [&](const FieldInfo& option) { return option.name == name; });
}

/// A layer's own options; a single number becomes a list where a list is expected.
Json options_of(const Json& json, const GraphLayer& layer) {
  Json options = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (key == "name" || key == "type" || key == "inputs") continue;
    const auto option = std::find_if(layer.type->options.begin(), layer.type->options.end(),
                                     [&](const FieldInfo& info) { return info.name == key; });
    if (option == layer.type->options.end()) {
      std::vector<std::string> known{"name", "type", "inputs"};
      for (const FieldInfo& info : layer.type->options) known.push_back(info.name);
      refuse(layer_title(layer) + " has no option " + in_quotes(key), suggestion(key, known));
    }
    check_value(layer_title(layer), key, value);
    options[key] = option->type == "integers" && value.is_number() ? Json::array({value}) : value;
  }
  return options;
}

GraphLayer read_layer(const Json& json, size_t index, const std::string& initializer) {
  const std::string place = "layer " + std::to_string(index);
  if (!json.is_object())
    refuse(place + " of the list is not a JSON object", "a layer is {\"type\": \"relu\"}");
  GraphLayer layer;
  layer.name = json.contains("name") ? text_at(json, "name", place) : std::to_string(index);
  check_name(layer.name);
  if (!json.contains("type"))
    refuse("layer " + in_quotes(layer.name) + " has no \"type\"", "a layer is {\"type\": \"relu\"}");
  layer.type = &find_type(text_at(json, "type", place), "layer " + in_quotes(layer.name));
  layer.options = options_of(json, layer);
  if (!initializer.empty() && has_option(*layer.type, "initializer") &&
      !layer.options.contains("initializer"))
    layer.options["initializer"] = initializer;
  return layer;
}

void check_options(const GraphLayer& layer) {
  Json options = layer.options;
  for (const char* key : {"filters", "features"}) {
    if (options.contains(key) && options[key] == "classes") options[key] = 1;
  }
  try {
    layer.type->check(options);
  } catch (const Error& error) {
    // Layer options are described like command-line options, but they have no dashes here.
    std::string message = error.message();
    if (const size_t dashes = message.find("--"); dashes != std::string::npos) message.erase(dashes, 2);
    throw Error(error.code(), layer_title(layer) + ": " + message, error.hint());
  }
}

using NameIndex = std::unordered_map<std::string, size_t>;

NameIndex index_names(const std::vector<GraphLayer>& layers) {
  NameIndex names;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!names.emplace(layers[i].name, i).second)
      refuse("two layers are named " + in_quotes(layers[i].name), "give each layer a different name");
  }
  for (const GraphLayer& layer : layers) {
    for (size_t dot = layer.name.find('.'); dot != std::string::npos; dot = layer.name.find('.', dot + 1)) {
      if (names.contains(layer.name.substr(0, dot))) {
        refuse("layer " + in_quotes(layer.name) + " would be inside layer " +
                   in_quotes(layer.name.substr(0, dot)),
               "rename one of them: the text before a dot is the name of a group of layers");
      }
    }
  }
  return names;
}

size_t find_input(const std::string& name, const GraphLayer& layer, const NameIndex& names) {
  if (name == "input") return kInputIndex;
  if (const auto found = names.find(name); found != names.end()) return found->second;
  std::vector<std::string> known{"input"};
  for (const auto& [other, index] : names) known.push_back(other);
  std::sort(known.begin(), known.end());
  const std::string found = nearest(name.substr(0, kMostNameBytes), known);
  refuse(layer_title(layer) + " has the input " + in_quotes(name) + ", which is not a layer",
         found.empty() ? "inputs are names of layers, or \"input\"" : "did you mean \"" + found + "\"?");
}

std::vector<size_t> read_inputs(const Json& json, size_t index, const GraphLayer& layer,
                                const NameIndex& names) {
  if (!json.contains("inputs")) return {index == 0 ? kInputIndex : index - 1};
  const Json list = json["inputs"].is_string() ? Json::array({json["inputs"]}) : json["inputs"];
  if (!list.is_array() || list.empty() || list.size() > static_cast<size_t>(kMostLayers))
    refuse(layer_title(layer) + ": \"inputs\" must be a list of names of layers");
  std::vector<size_t> inputs;
  for (const Json& item : list) {
    if (!item.is_string()) refuse(layer_title(layer) + ": \"inputs\" must be a list of names of layers");
    inputs.push_back(find_input(item.get<std::string>(), layer, names));
  }
  return inputs;
}

/// For each layer, the layers that read its output.
std::vector<std::vector<size_t>> consumers_of(const std::vector<GraphLayer>& layers) {
  std::vector<std::vector<size_t>> consumers(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const size_t input : layers[i].inputs) {
      if (input != kInputIndex) consumers[input].push_back(i);
    }
  }
  return consumers;
}

[[noreturn]] void refuse_cycle(const std::vector<GraphLayer>& layers, const std::vector<size_t>& missing) {
  // Every waiting layer has a waiting input, so following them backwards ends in the cycle.
  std::vector<size_t> path;
  size_t at = static_cast<size_t>(
      std::find_if(missing.begin(), missing.end(), [](size_t count) { return count > 0; }) - missing.begin());
  std::vector<bool> seen(layers.size());
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    at = *std::find_if(layers[at].inputs.begin(), layers[at].inputs.end(),
                       [&](size_t input) { return input != kInputIndex && missing[input] > 0; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  path.insert(path.begin(), at);
  if (path.size() > 1 && path.front() == path[1]) path.erase(path.begin());
  std::reverse(path.begin(), path.end());
  std::string text = in_quotes(layers[path.back()].name);
  for (size_t i = 0; i < path.size() && i < kMostListItems; ++i)
    text += " -> " + in_quotes(layers[path[i]].name);
  refuse("the layers form a cycle: " + text, "remove an input: a layer cannot depend on itself");
}

std::vector<size_t> evaluation_order(const std::vector<GraphLayer>& layers,
                                     const std::vector<std::vector<size_t>>& consumers) {
  std::vector<size_t> missing(layers.size());
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < layers.size(); ++i) {
    missing[i] = static_cast<size_t>(std::count_if(layers[i].inputs.begin(), layers[i].inputs.end(),
                                                   [](size_t input) { return input != kInputIndex; }));
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const size_t consumer : consumers[order.back()]) {
      if (--missing[consumer] == 0) ready.push(consumer);
    }
  }
  if (order.size() != layers.size()) refuse_cycle(layers, missing);
  return order;
}

size_t find_output(const std::vector<GraphLayer>& layers, const std::vector<std::vector<size_t>>& consumers) {
  std::vector<size_t> outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!consumers[i].empty()) continue;
    outputs.push_back(i);
    if (names.size() < kMostListItems) names.push_back(in_quotes(layers[i].name));
  }
  if (outputs.size() != 1) {
    refuse("no layer reads the output of " + join(names, ", ") +
               ": a network has one output, but this one would have " + std::to_string(outputs.size()),
           "name them in \"inputs\" of a later layer, or remove them");
  }
  return outputs.front();
}

struct TopLevel {
  const Json* layers = nullptr;
  std::string initializer;
};

// The trainer checks the texts.
void check_input_options(const Json& options) {
  if (!options.is_object() || options.size() > kMostListItems)
    refuse("\"input\" must be an object of options, such as \"image-size\": \"227x227\"");
  for (const auto& [key, value] : options.items())
    text_at(options, key.c_str(), "\"input\"", kMostInputBytes);
}

TopLevel read_top_level(const Json& json) {
  if (json.is_array()) return {&json, ""};
  if (!json.is_object()) refuse("a network must be a JSON list of layers, or an object with \"layers\"");
  TopLevel top;
  for (const auto& [key, value] : json.items()) {
    if (key == "layers") {
      top.layers = &value;
    } else if (key == "initializer") {
      top.initializer = text_at(json, "initializer", "the network");
    } else if (key == "name") {
      text_at(json, "name", "the network");
    } else if (key == "input") {
      check_input_options(value);
    } else {
      refuse("a network has no entry " + in_quotes(key),
             suggestion(key, {"name", "initializer", "input", "layers"}));
    }
  }
  if (top.layers == nullptr || !top.layers->is_array()) refuse("the network has no list of \"layers\"");
  return top;
}

}  // namespace

std::string layer_title(const GraphLayer& layer) {
  return "layer " + in_quotes(layer.name) + " (" + layer.type->name + ")";
}

LayerGraph read_graph(const Json& json) {
  const TopLevel top = read_top_level(json);
  if (top.layers->empty()) refuse("the network has no layers");
  const auto layer_count = static_cast<int64_t>(top.layers->size());
  if (layer_count > kMostLayers)
    refuse("the network has " + with_commas(layer_count) + " layers, more than the maximum of " +
           with_commas(kMostLayers));
  LayerGraph graph;
  for (const Json& item : *top.layers) {
    graph.layers.push_back(read_layer(item, graph.layers.size(), top.initializer));
    check_options(graph.layers.back());
  }
  const NameIndex names = index_names(graph.layers);
  for (size_t i = 0; i < graph.layers.size(); ++i)
    graph.layers[i].inputs = read_inputs((*top.layers)[i], i, graph.layers[i], names);
  const auto consumers = consumers_of(graph.layers);
  graph.order = evaluation_order(graph.layers, consumers);
  graph.output = find_output(graph.layers, consumers);
  return graph;
}

Json parse_network_json(const std::string& text) {
  try {
    return parse_json(text, KeyTwice::refused);
  } catch (const JsonError& error) {
    refuse(std::string("the network is not valid JSON: ") + error.what());
  }
}

}  // namespace lockstep::nn
