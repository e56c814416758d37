#include "lockstep/onnx/import_onnx.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layer.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/onnx/internal/importer.h"
#include "lockstep/onnx/internal/layer_names.h"
#include "lockstep/onnx/internal/own_file.h"

namespace lockstep::onnx {
namespace {

constexpr size_t kMostClasses = 1'000'000;

/// Which layers the output needs.
std::vector<bool> needed_layers(const FoundLayers& found) {
  std::vector<bool> needed(found.layers.size());
  needed[found.output.layer] = true;
  // A layer's inputs were found before it.
  for (size_t i = found.layers.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const size_t input : found.layers[i].inputs) {
      if (input != kNetworkInput) needed[input] = true;
    }
  }
  return needed;
}

std::string normalize_text(const FoundLayers& found) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < found.mean.size(); ++i) {
    numbers.push_back(shortest(found.mean[i]));
    numbers.push_back(shortest(found.deviation[i]));
  }
  return join(numbers, ",");
}

nn::NetworkInput input_of(const FoundLayers& found) {
  const auto size = [&](size_t axis) { return found.input.axes[axis].size; };
  nn::NetworkInput input{.channels = size(1)};
  if (found.input.axes.size() == 4) {
    input.height = size(2);
    input.width = size(3);
  } else {
    input.height = input.width = 1;
    input.time_steps = size(2) == kOpenTime ? 1 : size(2);
  }
  for (const Axis& axis : found.output.axes) {
    if (axis.label == 'C' || axis.label == 'F') input.classes = axis.size;
    if (axis.label == 'T') input.labels_time_steps = true;
  }
  return input;
}

/// What the graph expects of images, as far as the file says it.
Json expected_input(const FoundLayers& found, const nn::NetworkInput& input) {
  Json expected = Json::object();
  if (input.time_steps == 0) {
    expected["image-size"] = std::to_string(input.height) + "x" + std::to_string(input.width);
    if (input.channels == 1 || input.channels == 3) expected["color"] = input.channels == 1 ? "grey" : "rgb";
  }
  if (!found.mean.empty()) expected["normalize"] = normalize_text(found);
  return expected;
}

struct NamedGraph {
  Json json;
  nn::NamedTensors tensors;
};

NamedGraph named_graph(FoundLayers& found, const std::vector<std::string>& names, const Json& input) {
  NamedGraph graph;
  const std::vector<bool> needed = needed_layers(found);
  Json layers = Json::array();
  for (size_t i = 0; i < found.layers.size(); ++i) {
    LayerDraft& layer = found.layers[i];
    if (!needed[i]) continue;
    Json json{{"name", names[i]}, {"type", layer.type}};
    json.update(layer.options);
    if (layer.type == "lstm" || layer.type == "gru")
      json["output"] = layer.recurrent == RecurrentOutput::sequence ? "sequence" : "last";
    Json& inputs = json["inputs"] = Json::array();
    for (const size_t from : layer.inputs) inputs.push_back(from == kNetworkInput ? "input" : names[from]);
    layers.push_back(std::move(json));
    for (auto& [name, tensor] : layer.tensors) graph.tensors.emplace_back(names[i] + "." + name, tensor);
  }
  graph.json = Json{{"layers", std::move(layers)}};
  if (!input.empty()) graph.json["input"] = input;
  return graph;
}

/// The last layer with weights gets one output per class of other data too.
void open_classes(Json& graph, int64_t classes) {
  const nn::Network network = nn::read_network(graph, "the imported network");
  std::string head;
  try {
    head = nn::head_of(network);
  } catch (const Error&) {
    return;  // it has no such layer
  }
  for (Json& layer : graph["layers"]) {
    if (layer["name"] != head) continue;
    for (const char* outputs : {"filters", "features"}) {
      if (layer.contains(outputs) && layer[outputs] == classes) layer[outputs] = "classes";
    }
  }
}

std::vector<std::string> classes_in(const proto::Model& model, int64_t count) {
  for (const proto::Entry& entry : model.metadata_props()) {
    if (entry.key() != "classes") continue;
    try {
      const Json json = parse_json(entry.value());
      auto names = json.get<std::vector<std::string>>();
      if (static_cast<int64_t>(names.size()) == count && names.size() <= kMostClasses) return names;
    } catch (const Json::exception&) {
    }
  }
  return {};
}

/// Before memory is allocated for the network: only then is it as large as the tensors of the file.
void check_shapes(const nn::Network& network, const nn::NetworkInput& input,
                  const nn::NamedTensors& tensors) {
  std::unordered_map<std::string, at::Tensor> known(tensors.begin(), tensors.end());
  for (const nn::LayerRow& row : nn::inspect_network(network, input).rows) {
    for (const auto* list : {&row.learnables, &row.states}) {
      for (const nn::LayerTensor& tensor : *list) {
        const auto found = known.find(row.name + "." + tensor.name);
        if (found != known.end() && found->second.sizes() == at::IntArrayRef(tensor.shape)) continue;
        throw Error(ErrorCode::corrupt_data,
                    "the tensor " + name_text(row.name + "." + tensor.name) + " must be " +
                        nn::shape_text(tensor.shape) +
                        (found == known.end() ? ", but is missing"
                                              : ", but is " + nn::shape_text(found->second.sizes().vec())));
      }
    }
  }
}

/// The weights in the order of the state dict, checked against the layer graph.
nn::NamedTensors state_for(const nn::Network& network, const nn::NetworkInput& input,
                           nn::NamedTensors tensors, const std::string& name) {
  for (auto& [tensor_name, tensor] : tensors) {
    if (tensor.is_floating_point()) tensor = tensor.to(at::kFloat);
  }
  check_shapes(network, input, tensors);
  const nn::Instance instance = network.make(input);
  nn::load_state(*instance.module, {.tensors = std::move(tensors), .metadata = {}}, name);
  return nn::state_of(*instance.module);
}

Imported import_other(const proto::Model& model, const ImportOptions& options) {
  FoundLayers found = Importer(model, options).find();
  Imported imported{.trained = {}, .notes = found.notes};
  TrainedNetwork& trained = imported.trained;
  trained.input = input_of(found);
  const std::vector<std::string> names = names_of(found.layers, model.producer_name() == "Lockstep");
  NamedGraph graph = named_graph(found, names, expected_input(found, trained.input));
  open_classes(graph.json, trained.input.classes);
  trained.network = nn::read_network(graph.json, options.name);
  trained.mean = found.mean;
  trained.deviation = found.deviation;
  if (found.mean.empty()) {
    const bool sequences = trained.input.time_steps > 0;
    imported.notes.push_back("the file does not normalise its input, so name the normalisation of the " +
                             std::string(sequences ? "sequences" : "images") +
                             " that it was trained with: --normalize, such as --normalize " +
                             (sequences ? "none" : "imagenet"));
  }
  trained.state = state_for(trained.network, trained.input, std::move(graph.tensors), options.name);
  return imported;
}

}  // namespace

Imported import_onnx(std::string_view bytes, const ImportOptions& options) {
  const proto::Model model = read_model(bytes, options.name);
  return with_context([&] { return "in ONNX file " + quote(options.name); },
                      [&] {
                        TensorReader tensors(options.folder);
                        std::optional<Imported> own = restore_own(model, tensors);
                        if (own) {
                          own->trained.state = state_for(own->trained.network, own->trained.input,
                                                         std::move(own->trained.state), options.name);
                        }
                        Imported imported = own ? std::move(*own) : import_other(model, options);
                        imported.trained.classes = classes_in(model, imported.trained.input.classes);
                        return imported;
                      });
}

}  // namespace lockstep::onnx
