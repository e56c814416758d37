#include "lockstep/studio/designer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/studio/internal/drawing.h"

namespace lockstep::studio {
namespace {

constexpr size_t kMostLayers = 2000;

std::string group_of(const std::string& type) {
  static const std::map<std::string, std::vector<std::string>> groups{
      {"Convolution and linear", {"conv2d", "conv1d", "linear", "flatten"}},
      {"Normalisation", {"batch_norm", "layer_norm", "local_response_norm", "dropout"}},
      {"Pooling",
       {"max_pool", "average_pool", "adaptive_average_pool", "global_average_pool", "global_max_pool"}},
      {"Sequences", {"lstm", "bilstm", "gru"}},
      {"Joining", {"add", "concatenate"}}};
  for (const auto& [group, types] : groups) {
    if (std::find(types.begin(), types.end(), type) != types.end()) return group;
  }
  return "Activation";
}

Json option_json(const FieldInfo& info) {
  Json json{{"name", info.name}, {"type", info.type}, {"help", info.help}, {"default", info.default_text}};
  if (!info.choices.empty()) json["choices"] = info.choices;
  if (std::isfinite(info.traits.low)) json["least"] = info.traits.low;
  if (std::isfinite(info.traits.high)) json["greatest"] = info.traits.high;
  return json;
}

Json input_json(const nn::NetworkInput& input) {
  return {{"channels", input.channels},
          {"height", input.height},
          {"width", input.width},
          {"classes", input.classes},
          {"time_steps", input.time_steps}};
}

nn::NetworkInput read_input(const Json& json) {
  nn::NetworkInput input;
  const auto take = [&](const char* name, int64_t& value, int64_t least) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    if (!found->is_number_integer() || found->get<int64_t>() < least || found->get<int64_t>() > (1 << 24))
      throw Error(ErrorCode::invalid_option,
                  std::string("the network's ") + name + " cannot be " + found->dump());
    value = found->get<int64_t>();
  };
  if (!json.is_object()) throw Error(ErrorCode::invalid_option, "\"input\" must be an object");
  take("channels", input.channels, 1);
  take("height", input.height, 1);
  take("width", input.width, 1);
  take("classes", input.classes, 1);
  take("time_steps", input.time_steps, 0);
  if (input.time_steps > 0) input.height = input.width = 1;
  return input;
}

Drawing read_drawing(const Json& json) {
  const auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array() || layers->size() > kMostLayers)
    throw Error(ErrorCode::invalid_option,
                "a drawing has a list \"layers\" of at most " + std::to_string(kMostLayers) + " layers");
  Drawing drawing{.input = read_input(json.value("input", Json::object())), .layers = {}};
  for (const Json& layer : *layers) {
    const bool is_layer = layer.is_object() && layer.contains("name") && layer["name"].is_string() &&
                          layer.contains("type") && layer["type"].is_string() && layer.contains("inputs") &&
                          layer["inputs"].is_array();
    if (!is_layer)
      throw Error(ErrorCode::invalid_option, "a drawn layer has \"name\", \"type\" and a list \"inputs\"");
    DrawnLayer drawn{.name = layer["name"].get<std::string>(), .json = layer};
    for (const Json& input : layer["inputs"]) {
      if (!input.is_string()) throw Error(ErrorCode::invalid_option, "inputs are names of layers");
      drawn.inputs.push_back(input.get<std::string>());
    }
    drawing.layers.push_back(std::move(drawn));
  }
  return drawing;
}

// Multiplications and additions for one sample; those of activations and norms are not counted.
int64_t flop_of(const nn::LayerPlan& plan) {
  int64_t positions = 1;  // where the weights are used
  if (plan.output.size() == 3) positions = plan.output[1] * plan.output[2];
  if (plan.output.size() == 2) positions = plan.output[1];
  double flop = 0;
  for (const nn::TensorPlan& tensor : plan.learnables) {
    if (tensor.shape.size() < 2) continue;
    double weights = 2;
    for (const int64_t size : tensor.shape) weights *= static_cast<double>(size);
    flop += weights * static_cast<double>(positions);
  }
  return static_cast<int64_t>(std::min(flop, 9e18));
}

int64_t numbers_in(const std::vector<nn::TensorPlan>& tensors) {
  int64_t count = 0;
  for (const nn::TensorPlan& tensor : tensors) count += nn::checked_count(tensor.shape, tensor.name);
  return count;
}

Json layer_json(const DrawnLayer& layer) {
  Json json = Json::object();
  if (!layer.error.empty()) json["error"] = layer.error;
  if (!layer.hint.empty()) json["hint"] = layer.hint;
  if (!layer.plan) return json;
  json["shape"] = layer.plan->output;
  Json& tensors = json["tensors"] = Json::object();
  for (const auto* list : {&layer.plan->learnables, &layer.plan->states}) {
    for (const nn::TensorPlan& tensor : *list) tensors[tensor.name] = tensor.shape;
  }
  json["detail"] = layer.plan->detail;
  json["learnables"] = numbers_in(layer.plan->learnables);
  json["state"] = numbers_in(layer.plan->states);
  json["activations"] = nn::checked_count(layer.plan->output, "outputs");
  json["flop"] = flop_of(*layer.plan);
  return json;
}

Json totals_of(const Json& layers) {
  Json totals{{"learnables", 0}, {"state", 0}, {"activations", 0}, {"flop", 0}};
  for (auto& [name, total] : totals.items()) {
    int64_t sum = 0;
    for (const auto& [layer, values] : layers.items()) sum += values.value(name, int64_t{0});
    total = sum;
  }
  return totals;
}

// What is wrong with the whole, if every layer fits its inputs: no layers, several outputs, a last layer that
// returns no logits.
std::optional<Json> problem_of_whole(const Drawing& drawing, const Json& json) {
  if (drawing.layers.empty())
    return Json{
        {"layer", nullptr}, {"message", "there is no layer yet"}, {"hint", "add one from the palette"}};
  try {
    const nn::LayerGraph graph = nn::read_graph({{"layers", json["layers"]}});
    try {
      nn::plan_graph(graph, drawing.input);
      return std::nullopt;
    } catch (const Error& error) {
      const std::string& last = graph.layers[graph.output].name;
      return Json{{"layer", last},
                  {"message", error.message()},
                  {"hint", error.hint()},
                  {"fixes", fixes_of_end(drawing, last)}};
    }
  } catch (const Error& error) {
    return Json{{"layer", nullptr}, {"message", error.message()}, {"hint", error.hint()}};
  }
}

// The designer writes a list of one number as the number.
Json with_plain_options(Json layers) {
  for (Json& layer : layers) {
    for (auto& [name, value] : layer.items()) {
      if (name != "inputs" && value.is_array() && value.size() == 1) value = Json(value[0]);
    }
  }
  return layers;
}

}  // namespace

Json layer_palette() {
  Json palette = Json::array();
  for (const nn::LayerType& type : nn::layer_types()) {
    Json options = Json::array();
    for (const FieldInfo& info : type.options) options.push_back(option_json(info));
    palette.push_back({{"type", type.name}, {"group", group_of(type.name)}, {"options", options}});
  }
  return palette;
}

Json network_list() {
  Json list = Json::array();
  for (const nn::BuiltinNetwork& network : nn::builtin_networks())
    list.push_back({{"name", network.name}, {"input", input_json(network.input)}});
  return list;
}

Json drawing_of(const Json& network) {
  const nn::LayerGraph graph = nn::read_graph(network);
  Json layers = Json::array();
  for (const nn::GraphLayer& layer : graph.layers) {
    Json inputs = Json::array();
    for (const size_t input : layer.inputs)
      inputs.push_back(input == nn::kInputIndex ? "input" : graph.layers[input].name);
    Json json{{"name", layer.name}, {"type", layer.type->name}, {"inputs", inputs}};
    json.update(layer.options);
    layers.push_back(std::move(json));
  }
  Json drawing{{"layers", layers}};
  if (network.is_object() && network.contains("input")) {
    const nn::NetworkInput input = nn::sized_as_expected(network["input"], {});
    if (network["input"].contains("image-size"))
      drawing["input"] = {{"height", input.height}, {"width", input.width}, {"time_steps", 0}};
    if (network["input"].contains("color")) drawing["input"]["channels"] = input.channels;
  }
  return drawing;
}

std::string built_in_name(const Json& network) {
  const Json layers = with_plain_options(drawing_of(network)["layers"]);
  for (const nn::BuiltinNetwork& one : nn::builtin_networks()) {
    if (with_plain_options(drawing_of(one.graph())["layers"]) == layers) return one.name;
  }
  return "";
}

Json network_drawing(const std::string& name) {
  const nn::Network network = nn::find_network(name);
  const auto input = nn::native_input(name);
  if (!input) throw Error(ErrorCode::not_found, "there is no built-in network " + quote(name));
  Json drawing = drawing_of(network.spec());
  drawing["name"] = name;
  drawing["input"] = input_json(*input);
  return drawing;
}

Json check_drawing(const Json& json) {
  Drawing drawing = read_drawing(json);
  plan_drawing(drawing);
  Json layers = Json::object();
  Json problem = nullptr;
  bool is_whole = true;
  for (const size_t index : drawing.order) {
    const DrawnLayer& layer = drawing.layers[index];
    is_whole = is_whole && layer.plan.has_value();
    layers[layer.name] = layer_json(layer);
    if (problem.is_null() && !layer.error.empty())
      problem = {{"layer", layer.name},
                 {"message", layer.error},
                 {"hint", layer.hint},
                 {"fixes", fixes_of_layer(drawing, index)}};
  }
  if (problem.is_null()) {
    if (auto whole = problem_of_whole(drawing, json)) problem = *std::move(whole);
  }
  Json answer{{"layers", layers}, {"totals", totals_of(layers)}, {"complete", is_whole && problem.is_null()}};
  if (!problem.is_null()) answer["problem"] = problem;
  return answer;
}

}  // namespace lockstep::studio
