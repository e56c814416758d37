#include "lockstep/onnx/export_onnx.h"

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/nn/folded_batch_norm.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/onnx/internal/layer_writers.h"
#include "lockstep/onnx/internal/write_model.h"

namespace lockstep::onnx {
namespace {

constexpr int64_t kOperatorSet = 17;
constexpr int64_t kFileVersion = 8;  // the oldest that has operator set 17

// Class names come from users and may be any bytes.
std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A dimension's size, or its name where the size is free.
struct Size {
  int64_t value = 0;
  const char* name = nullptr;
};

void describe_value(proto::ValueInfo& info, const std::string& name, const std::vector<Size>& sizes) {
  info.set_name(name);
  proto::TensorType& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(kFloat32);
  for (const Size& size : sizes) {
    proto::Dimension& dimension = *type.mutable_shape()->add_dim();
    size.name != nullptr ? dimension.set_dim_param(size.name) : dimension.set_dim_value(size.value);
  }
}

std::vector<Size> input_sizes(const nn::NetworkInput& input) {
  if (input.time_steps > 0) return {{0, "batch"}, {input.channels}, {0, "time"}};
  return {{0, "batch"}, {input.channels}, {input.height}, {input.width}};
}

std::string input_text(const TrainedNetwork& trained, const ExportOptions& options) {
  if (trained.input.time_steps > 0)
    return options.normalized_input ? "normalized sequences without padding" : "sequences without padding";
  if (options.normalized_input) return "pixels / 255, minus the mean, divided by the deviation";
  return trained.input.channels == 1 ? "grey pixels from 0 to 255"
                                     : "pixels from 0 to 255; the channels are red, green, blue";
}

/// Pixels to what the network takes, with the operations of data::to_input.
std::string write_normalization(GraphBuilder& graph, const TrainedNetwork& trained) {
  const bool sequences = trained.input.time_steps > 0;
  std::string value = "input";
  if (!sequences)
    value = graph.add({"Div", "normalize/scaled", {value, graph.add_number("normalize/levels", 255)}});
  const auto per_channel = [&](const char* name, const std::vector<double>& numbers) {
    std::vector<int64_t> shape{1, static_cast<int64_t>(numbers.size()), 1};
    if (!sequences) shape.push_back(1);
    return graph.add_tensor(name, at::tensor(numbers, at::kDouble).view(shape));
  };
  if (!trained.mean.empty())
    value = graph.add({"Sub", "normalize/centred", {value, per_channel("normalize/mean", trained.mean)}});
  if (!trained.deviation.empty())
    value = graph.add(
        {"Div", "normalize/divided", {value, per_channel("normalize/deviation", trained.deviation)}});
  return value;
}

Json options_for(const nn::GraphLayer& layer, const nn::NetworkInput& input) {
  Json options = layer.options;
  for (const char* key : {"filters", "features"}) {
    if (options.contains(key) && options[key] == "classes") options[key] = input.classes;
  }
  return options;
}

void check_tensors(const nn::GraphLayer& layer, const nn::LayerPlan& plan, const nn::LayerTensors& tensors) {
  for (const auto* planned : {&plan.learnables, &plan.states}) {
    for (const nn::TensorPlan& tensor : *planned) {
      const at::Tensor& has = tensors.at(layer.name, tensor.name);
      if (has.sizes() == at::IntArrayRef(tensor.shape)) continue;
      throw Error(ErrorCode::corrupt_data,
                  "the weights do not fit the network: " + quote(layer.name + "." + tensor.name) + " is " +
                      nn::shape_text(has.sizes().vec()) + " instead of " + nn::shape_text(tensor.shape));
    }
  }
}

/// The value that the layers after `index` read.
std::string write_layers(GraphBuilder& graph, const TrainedNetwork& trained, const ExportOptions& options,
                         const std::string& first) {
  const nn::LayerGraph layers = nn::read_graph(trained.network.spec());
  const nn::GraphPlan plan = nn::plan_graph(layers, trained.input);
  nn::LayerTensors tensors(trained.state);
  for (const size_t index : layers.order) check_tensors(layers.layers[index], plan.layers[index], tensors);
  const std::vector<bool> folded = options.fold_batch_norm ? nn::fold_batch_norms(layers, tensors)
                                                           : std::vector<bool>(layers.layers.size());
  const nn::Shape input_shape =
      trained.input.time_steps > 0
          ? nn::Shape{trained.input.channels, trained.input.time_steps}
          : nn::Shape{trained.input.channels, trained.input.height, trained.input.width};
  std::vector<std::string> values(layers.layers.size());
  for (const size_t index : layers.order) {
    const nn::GraphLayer& layer = layers.layers[index];
    LayerToWrite write{.layer = layer,
                       .plan = plan.layers[index],
                       .options = options_for(layer, trained.input),
                       .inputs = {},
                       .shapes = {},
                       .tensors = tensors};
    for (const size_t from : layer.inputs) {
      write.inputs.push_back(from == nn::kInputIndex ? first : values[from]);
      write.shapes.push_back(from == nn::kInputIndex ? input_shape : plan.layers[from].output);
    }
    values[index] = folded[index] ? write.inputs.front() : write_layer(graph, write);
  }
  return values[layers.output];
}

void write_output(GraphBuilder& builder, proto::Graph& graph, std::string value,
                  const TrainedNetwork& trained, const ExportOptions& options) {
  const std::string name = options.scores ? "scores" : "logits";
  if (options.scores) value = builder.add({"Softmax", "scores/softmax", {value}, {{"axis", int64_t{1}}}});
  builder.name_output(value, name);
  std::vector<Size> sizes{{0, "batch"}, {trained.input.classes}};
  if (trained.input.labels_time_steps) sizes.push_back({0, "time"});
  describe_value(*graph.add_output(), name, sizes);
}

}  // namespace

proto::Graph graph_of(const TrainedNetwork& trained, const ExportOptions& options, size_t most_bytes) {
  if (trained.network.spec().is_null())
    throw Error(ErrorCode::invalid_option,
                "network " + quote(trained.network.name()) +
                    " is a C++ module, and only layer graphs can be exported",
                "torch.onnx.export writes modules that are defined in Python");
  proto::Graph graph;
  graph.set_name(trained.network.name());
  proto::ValueInfo& input = *graph.add_input();
  describe_value(input, "input", input_sizes(trained.input));
  input.set_doc_string(input_text(trained, options));
  GraphBuilder builder(graph, static_cast<int64_t>(most_bytes));
  for (const char* name : {"input", "logits", "scores"}) builder.reserve(name);
  const std::string first = options.normalized_input ? "input" : write_normalization(builder, trained);
  write_output(builder, graph, write_layers(builder, trained, options, first), trained, options);
  return graph;
}

std::map<std::string, std::string> metadata_of(const TrainedNetwork& trained, const ExportOptions& options) {
  std::map<std::string, std::string> metadata;
  if (!trained.classes.empty()) metadata["classes"] = json_text(trained.classes);
  if (options.fold_batch_norm) return metadata;  // the file then has other layers
  const nn::NetworkInput& input = trained.input;
  Json batches = Json::object();
  for (const auto& [name, tensor] : trained.state) {
    if (name.ends_with(kBatchCount)) batches[name] = tensor.item<int64_t>();
  }
  metadata[kOwnKey] = json_text(Json{{"network", trained.network.spec()},
                                     {"input",
                                      {{"channels", input.channels},
                                       {"height", input.height},
                                       {"width", input.width},
                                       {"classes", input.classes},
                                       {"time_steps", input.time_steps},
                                       {"labels_time_steps", input.labels_time_steps}}},
                                     {"mean", trained.mean},
                                     {"deviation", trained.deviation},
                                     {"normalized_input", options.normalized_input},
                                     {"scores", options.scores},
                                     {"num_batches_tracked", batches}});
  return metadata;
}

std::string to_onnx(const TrainedNetwork& trained, const ExportOptions& options) {
  proto::Model model;
  model.set_ir_version(kFileVersion);
  model.set_producer_name("Lockstep");
  model.set_producer_version(std::string(version()));
  model.add_opset_import()->set_version(kOperatorSet);
  *model.mutable_graph() = graph_of(trained, options);
  for (const auto& [key, value] : metadata_of(trained, options)) {
    proto::Entry& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  if (model.ByteSizeLong() > kMostModelBytes)
    throw Error(ErrorCode::invalid_option,
                "the network would take " + as_bytes(static_cast<int64_t>(model.ByteSizeLong())) +
                    " as an ONNX file, more than the 2.0 GB that such a file may have",
                "export its weights as safetensors, and its layers as .json, .py or .cpp");
  return model.SerializeAsString();
}

}  // namespace lockstep::onnx
