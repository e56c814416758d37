#include "lockstep/onnx/internal/code_layers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/convolution.h"
#include "lockstep/nn/layers/linear.h"
#include "lockstep/nn/layers/normalization.h"
#include "lockstep/nn/layers/over_time.h"
#include "lockstep/nn/layers/pooling.h"
#include "lockstep/nn/layers/recurrent.h"

namespace lockstep::onnx {
namespace {

/// A layer, the shape of its first input, and what is written for it.
struct Source {
  const nn::GraphLayer& layer;
  const nn::Shape& in;
  const nn::Shape& out;
  Json options;
  CodeLayer& code;

  template <Described Options>
  Options as() const {
    Options read;
    read_json(options, read, "");
    return read;
  }
  void require(const char* name, std::vector<double> numbers) {
    code.required.push_back({name, std::move(numbers)});
  }
  void require(const char* name, int64_t number) {
    require(name, std::vector<double>{static_cast<double>(number)});
  }
  void pair(const char* name, nn::Pair value, nn::Pair usual) {
    if (value.height == usual.height && value.width == usual.width) return;
    std::vector<double> numbers{static_cast<double>(value.height)};
    if (value.width != value.height) numbers.push_back(static_cast<double>(value.width));
    code.options.push_back({name, std::move(numbers)});
  }
  void integer(const char* name, int64_t value, int64_t usual) {
    if (value != usual) code.options.push_back({name, {static_cast<double>(value)}});
  }
  void number(const char* name, double value, double usual) {
    if (value != usual) code.options.push_back({.name = name, .numbers = {value}, .is_integer = false});
  }
  void toggle(const char* name, bool value, bool usual) {
    if (value != usual)
      code.options.push_back({.name = name, .numbers = {value ? 1.0 : 0.0}, .is_switch = true});
  }
};

std::vector<double> pair_numbers(nn::Pair pair) {
  if (pair.height == pair.width) return {static_cast<double>(pair.height)};
  return {static_cast<double>(pair.height), static_cast<double>(pair.width)};
}

void describe_convolution(Source& source) {
  const auto options = source.as<nn::Conv2d>();
  source.code.module = "Conv2d";
  source.require("in_channels", source.in[0]);
  source.require("out_channels", options.filters);
  source.require("kernel_size", pair_numbers(nn::pair_of(options.kernel, "kernel", {1, 1})));
  source.pair("stride", nn::pair_of(options.stride, "stride", {1, 1}), {1, 1});
  source.pair("padding", nn::pair_of(options.padding, "padding", {0, 0}), {0, 0});
  source.pair("dilation", nn::pair_of(options.dilation, "dilation", {1, 1}), {1, 1});
  source.integer("groups", options.groups, 1);
  source.toggle("bias", options.bias, true);
}

void describe_time_convolution(Source& source) {
  const auto options = source.as<nn::Conv1d>();
  source.code.module = "Conv1d";
  source.require("in_channels", source.in[0]);
  source.require("out_channels", options.filters);
  source.require("kernel_size", options.kernel);
  source.integer("dilation", options.dilation, 1);
  source.integer("groups", options.groups, 1);
  source.toggle("bias", options.bias, true);
  source.code.call = CodeCall::padded;
  const int64_t missing = options.dilation * (options.kernel - 1);
  const int64_t before = options.padding == nn::TimePadding::causal ? missing : missing / 2;
  source.code.padding = {before, missing - before};
}

void describe_layer_norm(Source& source) {
  const auto options = source.as<nn::LayerNorm>();
  const bool sequences = source.in.size() == 2;
  source.code.module = "LayerNorm";
  std::vector<double> shape(source.in.begin(), sequences ? source.in.begin() + 1 : source.in.end());
  source.code.required.push_back({.name = "normalized_shape", .numbers = std::move(shape), .is_list = true});
  source.number("eps", options.epsilon, 1e-5);
  source.toggle("elementwise_affine", options.affine, true);
  if (sequences) source.code.call = CodeCall::steps;
}

void describe_linear(Source& source) {
  const auto options = source.as<nn::Linear>();
  source.code.module = "Linear";
  source.require("in_features", source.in[0]);
  source.require("out_features", options.features);
  source.toggle("bias", options.bias, true);
  if (source.in.size() == 2) source.code.call = CodeCall::steps;
}

void describe_batch_norm(Source& source) {
  const auto options = source.as<nn::BatchNorm>();
  source.code.module = source.in.size() == 3 ? "BatchNorm2d" : "BatchNorm1d";
  source.require("num_features", source.in[0]);
  source.number("eps", options.epsilon, 1e-5);
  source.number("momentum", options.momentum, 0.1);
  source.toggle("affine", options.affine, true);
}

void describe_response_norm(Source& source) {
  const auto options = source.as<nn::LocalResponseNorm>();
  source.code.module = "LocalResponseNorm";
  source.require("size", options.size);
  source.number("alpha", options.alpha, 1e-4);
  source.number("beta", options.beta, 0.75);
  source.number("k", options.k, 1);
}

void describe_softmax(Source& source) {
  source.code.module = "Softmax";
  source.require("dim", 1);
}

void describe_leaky_relu(Source& source) {
  source.code.module = "LeakyReLU";
  source.number("negative_slope", source.as<nn::LeakyRelu>().slope, 0.01);
}

void describe_dropout(Source& source) {
  source.code.module = "Dropout";
  source.number("p", source.as<nn::Dropout>().probability, 0.5);
}

template <class Options>
void describe_windows(Source& source, const Options& options) {
  const nn::Pair kernel = nn::pair_of(options.kernel, "kernel", {1, 1});
  source.require("kernel_size", pair_numbers(kernel));
  source.pair("stride", nn::pair_of(options.stride, "stride", kernel), kernel);
  source.pair("padding", nn::pair_of(options.padding, "padding", {0, 0}), {0, 0});
}

void describe_max_pool(Source& source) {
  const auto options = source.as<nn::MaxPool>();
  source.code.module = "MaxPool2d";
  describe_windows(source, options);
  source.pair("dilation", nn::pair_of(options.dilation, "dilation", {1, 1}), {1, 1});
  source.toggle("ceil_mode", options.ceil_mode, false);
}

void describe_average_pool(Source& source) {
  const auto options = source.as<nn::AveragePool>();
  source.code.module = "AvgPool2d";
  describe_windows(source, options);
  source.toggle("ceil_mode", options.ceil_mode, false);
}

void describe_adaptive_pool(Source& source) {
  source.code.module = "AdaptiveAvgPool2d";
  source.require("output_size", pair_numbers({source.out[1], source.out[2]}));
}

void describe_global_average_pool(Source& source) {
  if (source.in.size() == 3) return describe_adaptive_pool(source);
  source.code.call = CodeCall::mean;
}

void describe_global_max_pool(Source& source) {
  source.code.call = source.in.size() == 3 ? CodeCall::maximum_of_image : CodeCall::maximum;
}

void describe_recurrent(Source& source) {
  const auto options = source.as<nn::Recurrent>();
  const bool both_ways = source.layer.type->name == "bilstm";
  source.code.module = source.layer.type->name == "gru" ? "GRU" : "LSTM";
  source.require("input_size", source.in[0]);
  source.require("hidden_size", options.hidden);
  source.integer("num_layers", options.layers, 1);
  source.code.options.push_back({.name = "batch_first", .numbers = {1}, .is_switch = true});
  if (both_ways) source.code.options.push_back({.name = "bidirectional", .numbers = {1}, .is_switch = true});
  source.code.call = options.output == nn::OutputMode::sequence ? CodeCall::sequence
                     : both_ways                                ? CodeCall::last_ways
                                                                : CodeCall::last_step;
}

template <CodeCall kCall>
void describe_call(Source& source) {
  source.code.call = kCall;
}

template <const char* kModule>
void describe_module(Source& source) {
  source.code.module = kModule;
}
constexpr char kReluClass[] = "ReLU", kRelu6Class[] = "ReLU6", kTanhClass[] = "Tanh",
               kSigmoidClass[] = "Sigmoid", kGeluClass[] = "GELU";

struct CodeType {
  const char* type;
  void (*describe)(Source& source);
};
constexpr std::array kCodeTypes{
    CodeType{"conv2d", describe_convolution},
    CodeType{"conv1d", describe_time_convolution},
    CodeType{"linear", describe_linear},
    CodeType{"flatten", describe_call<CodeCall::flatten>},
    CodeType{"batch_norm", describe_batch_norm},
    CodeType{"layer_norm", describe_layer_norm},
    CodeType{"local_response_norm", describe_response_norm},
    CodeType{"relu", describe_module<kReluClass>},
    CodeType{"relu6", describe_module<kRelu6Class>},
    CodeType{"leaky_relu", describe_leaky_relu},
    CodeType{"tanh", describe_module<kTanhClass>},
    CodeType{"sigmoid", describe_module<kSigmoidClass>},
    CodeType{"gelu", describe_module<kGeluClass>},
    CodeType{"softmax", describe_softmax},
    CodeType{"dropout", describe_dropout},
    CodeType{"max_pool", describe_max_pool},
    CodeType{"average_pool", describe_average_pool},
    CodeType{"adaptive_average_pool", describe_adaptive_pool},
    CodeType{"global_average_pool", describe_global_average_pool},
    CodeType{"global_max_pool", describe_global_max_pool},
    CodeType{"lstm", describe_recurrent},
    CodeType{"bilstm", describe_recurrent},
    CodeType{"gru", describe_recurrent},
    CodeType{"add", describe_call<CodeCall::add>},
    CodeType{"concatenate", describe_call<CodeCall::join>},
};

/// A variable for a layer's output: its name in letters, digits and underscores, and another one if it is
/// taken.
std::string variable_for(const std::string& name, std::set<std::string>& taken) {
  std::string variable = "x_";
  for (const unsigned char c : name) variable += c < 128 && std::isalnum(c) != 0 ? static_cast<char>(c) : '_';
  if (std::isalpha(static_cast<unsigned char>(name[0])) != 0) variable.erase(0, 2);
  // Neither language has a word that ends like this, and no other name here does.
  std::string free = variable + "_";
  for (int64_t i = 2; !taken.insert(free).second; ++i) free = variable + "_" + std::to_string(i) + "_";
  return free;
}

void describe_layer(Source source) {
  const std::string& type = source.layer.type->name;
  for (const CodeType& one : kCodeTypes) {
    if (one.type == type) return one.describe(source);
  }
  throw Error(
      ErrorCode::invalid_option,
      nn::layer_title(source.layer) + " cannot be written as code: this type of layer is not supported");
}

}  // namespace

CodeNetwork code_network(const nn::Network& network, const nn::NetworkInput& input,
                         const std::string& input_variable) {
  if (network.spec().is_null())
    throw Error(ErrorCode::invalid_option,
                "network " + quote(network.name()) +
                    " is a C++ module, and only layer graphs can be written as code");
  const nn::LayerGraph graph = nn::read_graph(network.spec());
  const nn::GraphPlan plan = nn::plan_graph(graph, input);
  const nn::Shape input_shape = input.time_steps > 0 ? nn::Shape{input.channels, input.time_steps}
                                                     : nn::Shape{input.channels, input.height, input.width};
  std::set<std::string> taken{input_variable};
  std::vector<std::string> variables(graph.layers.size());
  CodeNetwork code;
  for (const size_t index : graph.order) {
    const nn::GraphLayer& layer = graph.layers[index];
    const size_t first = layer.inputs.front();
    CodeLayer described;
    described.name = layer.name;
    for (const size_t from : layer.inputs)
      described.inputs.push_back(from == nn::kInputIndex ? input_variable : variables[from]);
    described.variable = variables[index] = variable_for(layer.name, taken);
    Json options = layer.options;
    for (const char* key : {"filters", "features"}) {
      if (options.contains(key) && options[key] == "classes") options[key] = input.classes;
    }
    describe_layer({layer, first == nn::kInputIndex ? input_shape : plan.layers[first].output,
                    plan.layers[index].output, options, described});
    code.layers.push_back(std::move(described));
  }
  code.output = variables[graph.output];
  code.title = input.time_steps > 0 ? "sequences float32 [batch," + std::to_string(input.channels) + ",time]"
                                    : "images float32 [batch," + nn::shape_text(input_shape).substr(1);
  code.title += ", normalised as in training; output: logits of " + counted(input.classes, "class");
  return code;
}

}  // namespace lockstep::onnx
