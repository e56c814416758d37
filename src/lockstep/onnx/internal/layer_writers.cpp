#include "lockstep/onnx/internal/layer_writers.h"

#include <algorithm>
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/accumulate.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/convolution.h"
#include "lockstep/nn/layers/linear.h"
#include "lockstep/nn/layers/normalization.h"
#include "lockstep/nn/layers/over_time.h"
#include "lockstep/nn/layers/pooling.h"

namespace lockstep::onnx {
namespace {

using nn::Pair;

std::vector<int64_t> list_of(Pair pair) { return {pair.height, pair.width}; }

/// The learnable or state `tensor`, under the name that it has in the state dict.
std::string add_own(GraphBuilder& graph, const LayerToWrite& layer, const std::string& tensor) {
  return graph.add_tensor(layer.name() + "." + tensor, layer.tensors.at(layer.name(), tensor));
}

template <const char* kOp>
std::string write_function(GraphBuilder& graph, const LayerToWrite& layer) {
  return graph.add({kOp, layer.name(), layer.inputs});
}

constexpr char kRelu[] = "Relu", kTanh[] = "Tanh", kSigmoid[] = "Sigmoid";

std::string write_relu6(GraphBuilder& graph, const LayerToWrite& layer) {
  const std::string low = graph.add_number(layer.name() + "/min", 0);
  const std::string high = graph.add_number(layer.name() + "/max", 6);
  return graph.add({"Clip", layer.name(), {layer.inputs[0], low, high}});
}

// Operator set 20 has a Gelu, but many runtimes end before it.
std::string write_gelu(GraphBuilder& graph, const LayerToWrite& layer) {
  const std::string& name = layer.name();
  const std::string root = graph.add_number(name + "/root", std::sqrt(2.0));
  const std::string one = graph.add_number(name + "/one", 1), half = graph.add_number(name + "/half", 0.5);
  const std::string scaled = graph.add({"Div", name + "/scaled", {layer.inputs[0], root}});
  const std::string erf = graph.add({"Erf", name + "/erf", {scaled}});
  const std::string share = graph.add({"Add", name + "/share", {erf, one}});
  const std::string product = graph.add({"Mul", name + "/product", {layer.inputs[0], share}});
  return graph.add({"Mul", name, {product, half}});
}

std::string write_softmax(GraphBuilder& graph, const LayerToWrite& layer) {
  return graph.add({"Softmax", layer.name(), layer.inputs, {{"axis", int64_t{1}}}});
}

std::string write_leaky_relu(GraphBuilder& graph, const LayerToWrite& layer) {
  return graph.add(
      {"LeakyRelu", layer.name(), layer.inputs, {{"alpha", layer.options_as<nn::LeakyRelu>().slope}}});
}

// Without the input training_mode it passes its input on.
std::string write_dropout(GraphBuilder& graph, const LayerToWrite& layer) {
  const std::string ratio =
      graph.add_number(layer.name() + "/ratio", layer.options_as<nn::Dropout>().probability);
  return graph.add({"Dropout", layer.name(), {layer.inputs[0], ratio}});
}

std::string write_convolution(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::Conv2d>();
  const Pair padding = nn::pair_of(options.padding, "padding", {0, 0});
  std::vector<std::string> inputs{layer.inputs[0], add_own(graph, layer, "weight")};
  if (layer.tensors.has(layer.name(), "bias")) inputs.push_back(add_own(graph, layer, "bias"));
  return graph.add({"Conv",
                    layer.name(),
                    inputs,
                    {{"kernel_shape", list_of(nn::pair_of(options.kernel, "kernel", {1, 1}))},
                     {"strides", list_of(nn::pair_of(options.stride, "stride", {1, 1}))},
                     {"pads", std::vector{padding.height, padding.width, padding.height, padding.width}},
                     {"dilations", list_of(nn::pair_of(options.dilation, "dilation", {1, 1}))},
                     {"group", options.groups}}});
}

// Over time, with as many time steps around the sequence as the window needs.
std::string write_time_convolution(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::Conv1d>();
  const int64_t missing = options.dilation * (options.kernel - 1);
  const int64_t before = options.padding == nn::TimePadding::causal ? missing : missing / 2;
  std::vector<std::string> inputs{layer.inputs[0], add_own(graph, layer, "weight")};
  if (options.bias) inputs.push_back(add_own(graph, layer, "bias"));
  return graph.add({"Conv",
                    layer.name(),
                    inputs,
                    {{"kernel_shape", std::vector{options.kernel}},
                     {"strides", std::vector<int64_t>{1}},
                     {"pads", std::vector{before, missing - before}},
                     {"dilations", std::vector{options.dilation}},
                     {"group", options.groups}}});
}

std::string write_linear(GraphBuilder& graph, const LayerToWrite& layer) {
  const std::string& name = layer.name();
  const bool bias = layer.tensors.has(name, "bias");
  std::vector<std::string> inputs{layer.inputs[0], add_own(graph, layer, "weight")};
  if (layer.shapes[0].size() == 1) {
    if (bias) inputs.push_back(add_own(graph, layer, "bias"));
    return graph.add({"Gemm", name, inputs, {{"transB", int64_t{1}}}});
  }
  // weight [features,in] times each sequence [in,T].
  std::swap(inputs[0], inputs[1]);
  if (!bias) return graph.add({"MatMul", name, inputs});
  const std::string product = graph.add({"MatMul", name + "/product", inputs});
  const std::string axis = graph.add_integers(name + "/axis", {1});
  const std::string column =
      graph.add({"Unsqueeze", name + "/column", {add_own(graph, layer, "bias"), axis}});
  return graph.add({"Add", name, {product, column}});
}

std::string write_flatten(GraphBuilder& graph, const LayerToWrite& layer) {
  return graph.add({"Flatten", layer.name(), layer.inputs, {{"axis", int64_t{1}}}});
}

std::string write_batch_norm(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::BatchNorm>();
  const std::string& name = layer.name();
  const at::Tensor mean = layer.tensors.at(name, "running_mean");
  std::vector<std::string> inputs{layer.inputs[0]};
  for (const char* tensor : {"weight", "bias"}) {
    inputs.push_back(options.affine ? add_own(graph, layer, tensor)
                                    : graph.add_tensor(name + "/" + tensor,
                                                       at::full_like(mean, tensor[0] == 'w' ? 1 : 0)));
  }
  inputs.push_back(add_own(graph, layer, "running_mean"));
  inputs.push_back(add_own(graph, layer, "running_var"));
  // ONNX's momentum is the weight of the old statistics.
  return graph.add({"BatchNormalization",
                    name,
                    inputs,
                    {{"epsilon", options.epsilon}, {"momentum", 1 - options.momentum}}});
}

std::string write_layer_norm(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::LayerNorm>();
  const std::string& name = layer.name();
  const bool sequences = layer.shapes[0].size() == 2;
  const nn::Shape shape = sequences ? nn::Shape{layer.shapes[0][0]} : layer.shapes[0];
  if (!options.affine) graph.take_room(name, 1, c10::multiply_integers(shape));
  const std::string scale =
      options.affine ? add_own(graph, layer, "weight") : graph.add_tensor(name + "/weight", at::ones(shape));
  std::vector<std::string> inputs{layer.inputs[0], scale};
  if (options.affine) inputs.push_back(add_own(graph, layer, "bias"));
  const int64_t axis = sequences ? -1 : 1;
  const Attributes attributes{{"axis", axis}, {"epsilon", options.epsilon}};
  if (!sequences) return graph.add({"LayerNormalization", name, inputs, attributes});
  const std::vector<int64_t> swap{0, 2, 1};
  inputs[0] = graph.add({"Transpose", name + "/by_time", {inputs[0]}, {{"perm", swap}}});
  const std::string normal = graph.add({"LayerNormalization", name + "/steps", inputs, attributes});
  return graph.add({"Transpose", name, {normal}, {{"perm", swap}}});
}

// An even size reaches one channel further down in PyTorch, and one further up in ONNX. The sum over channels
// is then written as a convolution with ones where a channel counts.
std::string write_even_response_norm(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::LocalResponseNorm>();
  const std::string& name = layer.name();
  const int64_t channels = layer.shapes[0][0];
  graph.take_room(name, channels, channels);
  const at::Tensor place = at::arange(channels, at::kLong);
  const at::Tensor distance = place.view({1, channels}) - place.view({channels, 1});
  const at::Tensor counts = at::logical_and(distance >= -(options.size / 2), distance < options.size / 2);
  const std::string band =
      graph.add_tensor(name + "/band", counts.to(at::kFloat).view({channels, channels, 1, 1}));
  const std::string squares = graph.add({"Mul", name + "/squares", {layer.inputs[0], layer.inputs[0]}});
  const std::string sums = graph.add({"Conv", name + "/sums", {squares, band}});
  const std::string factor =
      graph.add_number(name + "/alpha", options.alpha / static_cast<double>(options.size));
  const std::string scaled = graph.add({"Mul", name + "/scaled", {sums, factor}});
  const std::string shifted =
      graph.add({"Add", name + "/shifted", {scaled, graph.add_number(name + "/k", options.k)}});
  const std::string divisor =
      graph.add({"Pow", name + "/divisor", {shifted, graph.add_number(name + "/beta", options.beta)}});
  return graph.add({"Div", name, {layer.inputs[0], divisor}});
}

std::string write_response_norm(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::LocalResponseNorm>();
  if (options.size % 2 == 0) return write_even_response_norm(graph, layer);
  return graph.add(
      {"LRN",
       layer.name(),
       layer.inputs,
       {{"size", options.size}, {"alpha", options.alpha}, {"beta", options.beta}, {"bias", options.k}}});
}

/// Windows along one side of an image.
struct SideWindows {
  int64_t in, out, kernel, stride, padding, dilation;
  /// Rows that the last windows reach beyond the padding, with ceil_mode.
  int64_t beyond() const {
    return std::max<int64_t>(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - in - 2 * padding);
  }
};

template <class Options>
std::array<SideWindows, 2> windows_of(const Options& options, const LayerToWrite& layer, Pair dilation) {
  const Pair kernel = nn::pair_of(options.kernel, "kernel", {1, 1});
  const Pair stride = nn::pair_of(options.stride, "stride", kernel);
  const Pair padding = nn::pair_of(options.padding, "padding", {0, 0});
  const nn::Shape &in = layer.shapes[0], &out = layer.plan.output;
  return {SideWindows{in[1], out[1], kernel.height, stride.height, padding.height, dilation.height},
          SideWindows{in[2], out[2], kernel.width, stride.width, padding.width, dilation.width}};
}

Attributes window_attributes(const std::array<SideWindows, 2>& sides, bool padded) {
  const auto& [rows, columns] = sides;
  const int64_t top = padded ? rows.padding : 0, left = padded ? columns.padding : 0;
  return {{"kernel_shape", std::vector{rows.kernel, columns.kernel}},
          {"strides", std::vector{rows.stride, columns.stride}},
          {"pads", std::vector{top, left, top + rows.beyond(), left + columns.beyond()}}};
}

// What ceil_mode adds is written as padding below and at the right, because runtimes count windows with
// ONNX's own ceil_mode in different ways.
std::string write_max_pool(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto options = layer.options_as<nn::MaxPool>();
  const Pair dilation = nn::pair_of(options.dilation, "dilation", {1, 1});
  Attributes attributes = window_attributes(windows_of(options, layer, dilation), true);
  attributes.emplace_back("dilations", list_of(dilation));
  return graph.add({"MaxPool", layer.name(), layer.inputs, attributes});
}

// The padding counts in the means, and what ceil_mode adds does not.
std::string write_average_pool(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto sides = windows_of(layer.options_as<nn::AveragePool>(), layer, {1, 1});
  const auto& [rows, columns] = sides;
  const bool beyond = rows.beyond() > 0 || columns.beyond() > 0;
  std::string input = layer.inputs[0];
  if (beyond && (rows.padding > 0 || columns.padding > 0)) {
    const std::string pads = graph.add_integers(
        layer.name() + "/pads", {0, 0, rows.padding, columns.padding, 0, 0, rows.padding, columns.padding});
    input = graph.add({"Pad", layer.name() + "/padded", {input, pads}});
  }
  Attributes attributes = window_attributes(sides, !beyond);
  attributes.emplace_back("count_include_pad", int64_t{!beyond});
  return graph.add({"AveragePool", layer.name(), {input}, attributes});
}

/// [in,out]: column i has the mean over the rows from floor(i in / out) to ceil((i + 1) in / out), as
/// PyTorch's adaptive average pooling.
at::Tensor means_matrix(int64_t in, int64_t out) {
  at::Tensor matrix = at::zeros({in, out});
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    matrix.narrow(0, begin, end - begin).select(1, i).fill_(1.0 / static_cast<double>(end - begin));
  }
  return matrix;
}

std::string write_adaptive_pool(GraphBuilder& graph, const LayerToWrite& layer) {
  const std::string& name = layer.name();
  const nn::Shape &in = layer.shapes[0], &out = layer.plan.output;
  if (out[1] == 1 && out[2] == 1) return graph.add({"GlobalAveragePool", name, layer.inputs});
  if (in[1] % out[1] == 0 && in[2] % out[2] == 0) {
    const std::vector<int64_t> size{in[1] / out[1], in[2] / out[2]};
    return graph.add({"AveragePool", name, layer.inputs, {{"kernel_shape", size}, {"strides", size}}});
  }
  graph.take_room(name, in[2], out[2]);
  graph.take_room(name, in[1], out[1]);
  const std::string across = graph.add_tensor(name + "/columns", means_matrix(in[2], out[2]));
  const std::string down = graph.add_tensor(name + "/rows", means_matrix(in[1], out[1]).t());
  const std::string narrow = graph.add({"MatMul", name + "/narrow", {layer.inputs[0], across}});
  return graph.add({"MatMul", name, {down, narrow}});
}

/// Over the pixels of images, or over the time steps of sequences.
std::string write_global_pool(GraphBuilder& graph, const LayerToWrite& layer, const char* images,
                              const char* sequences) {
  if (layer.shapes[0].size() == 3) return graph.add({images, layer.name(), layer.inputs});
  return graph.add(
      {sequences, layer.name(), layer.inputs, {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}}});
}

std::string write_global_average_pool(GraphBuilder& graph, const LayerToWrite& layer) {
  return write_global_pool(graph, layer, "GlobalAveragePool", "ReduceMean");
}

std::string write_global_max_pool(GraphBuilder& graph, const LayerToWrite& layer) {
  return write_global_pool(graph, layer, "GlobalMaxPool", "ReduceMax");
}

std::string write_add(GraphBuilder& graph, const LayerToWrite& layer) {
  return graph.add({layer.inputs.size() == 2 ? "Add" : "Sum", layer.name(), layer.inputs});
}

std::string write_concatenate(GraphBuilder& graph, const LayerToWrite& layer) {
  return graph.add({"Concat", layer.name(), layer.inputs, {{"axis", int64_t{1}}}});
}

struct LayerWriter {
  const char* type;
  std::string (*write)(GraphBuilder& graph, const LayerToWrite& layer);
};

constexpr std::array kWriters{
    LayerWriter{"conv2d", write_convolution},
    LayerWriter{"conv1d", write_time_convolution},
    LayerWriter{"linear", write_linear},
    LayerWriter{"flatten", write_flatten},
    LayerWriter{"batch_norm", write_batch_norm},
    LayerWriter{"layer_norm", write_layer_norm},
    LayerWriter{"local_response_norm", write_response_norm},
    LayerWriter{"relu", write_function<kRelu>},
    LayerWriter{"relu6", write_relu6},
    LayerWriter{"leaky_relu", write_leaky_relu},
    LayerWriter{"tanh", write_function<kTanh>},
    LayerWriter{"sigmoid", write_function<kSigmoid>},
    LayerWriter{"gelu", write_gelu},
    LayerWriter{"softmax", write_softmax},
    LayerWriter{"dropout", write_dropout},
    LayerWriter{"max_pool", write_max_pool},
    LayerWriter{"average_pool", write_average_pool},
    LayerWriter{"adaptive_average_pool", write_adaptive_pool},
    LayerWriter{"global_average_pool", write_global_average_pool},
    LayerWriter{"global_max_pool", write_global_max_pool},
    LayerWriter{"lstm", write_lstm},
    LayerWriter{"bilstm", write_bilstm},
    LayerWriter{"gru", write_gru},
    LayerWriter{"add", write_add},
    LayerWriter{"concatenate", write_concatenate},
};

}  // namespace

std::string write_layer(GraphBuilder& graph, const LayerToWrite& layer) {
  const auto writer = std::find_if(kWriters.begin(), kWriters.end(), [&](const LayerWriter& one) {
    return one.type == layer.layer.type->name;
  });
  if (writer == kWriters.end())
    throw Error(
        ErrorCode::invalid_option,
        nn::layer_title(layer.layer) + " cannot be written as ONNX: this type of layer is not supported");
  return writer->write(graph, layer);
}

}  // namespace lockstep::onnx
