#include "lockstep/base/text.h"
#include "lockstep/onnx/code.h"
#include "lockstep/onnx/internal/code_layers.h"

namespace lockstep::onnx {
namespace {

std::string cpp_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '?') quoted += '\\';  // ??x would be a trigraph
    quoted += c;
  }
  return quoted + "\"";
}

std::string cpp_value(const CodeArgument& argument) {
  if (argument.is_switch) return argument.numbers[0] != 0 ? "true" : "false";
  std::vector<std::string> numbers;
  for (const double number : argument.numbers)
    numbers.push_back(argument.is_integer ? std::to_string(static_cast<int64_t>(number)) : shortest(number));
  return numbers.size() == 1 && !argument.is_list ? numbers[0] : "{" + join(numbers, ", ") + "}";
}

std::string constructor_of_cpp(const CodeLayer& layer) {
  std::vector<std::string> required;
  for (const CodeArgument& argument : layer.required) required.push_back(cpp_value(argument));
  std::string options;
  for (const CodeArgument& argument : layer.options)
    options += "." + argument.name + "(" + cpp_value(argument) + ")";
  if (required.empty() && options.empty()) return "torch::nn::" + layer.module + "()";
  const std::string settings =
      "torch::nn::" + layer.module + "Options(" + join(required, ", ") + ")" + options;
  return "torch::nn::" + layer.module + "(" + settings + ")";
}

std::string cpp_call(const CodeLayer& layer) {
  const std::string& input = layer.inputs[0];
  const std::string run = layer.variable + "layer->forward(" + input;
  switch (layer.call) {
    case CodeCall::add:
      return join(layer.inputs, " + ");
    case CodeCall::join:
      return "torch::cat({" + join(layer.inputs, ", ") + "}, 1)";
    case CodeCall::flatten:
      return input + ".flatten(1)";
    case CodeCall::steps:
      return run + ".transpose(1, 2)).transpose(1, 2)";
    case CodeCall::sequence:
      return "std::get<0>(" + run + ".transpose(1, 2))).transpose(1, 2)";
    case CodeCall::last_step:
      return "std::get<0>(" + run + ".transpose(1, 2))).select(1, -1)";
    case CodeCall::last_ways:
      return "std::get<0>(std::get<1>(" + run + ".transpose(1, 2)))).slice(0, -2).transpose(0, 1).flatten(1)";
    case CodeCall::padded:
      return layer.variable + "layer->forward(torch::constant_pad_nd(" + input + ", {" +
             std::to_string(layer.padding.first) + ", " + std::to_string(layer.padding.second) + "}))";
    case CodeCall::mean:
      return input + ".mean(2)";
    case CodeCall::maximum:
      return input + ".amax(2)";
    case CodeCall::maximum_of_image:
      return input + ".amax({2, 3}, true)";
    case CodeCall::module:
      break;
  }
  return run + ")";
}

}  // namespace

std::string cpp_code(const nn::Network& network, const nn::NetworkInput& input) {
  const CodeNetwork code = code_network(network, input, "x");
  std::string constructor, forward, members;
  for (const CodeLayer& layer : code.layers) {
    if (!layer.module.empty()) {
      // The variables end in an underscore, so that these names end in "_layer".
      const std::string member = layer.variable + "layer";
      constructor +=
          "    " + member + " = add(" + cpp_text(layer.name) + ", " + constructor_of_cpp(layer) + ");\n";
      members += "  torch::nn::" + layer.module + " " + member + "{nullptr};\n";
    }
    forward += "    const torch::Tensor " + layer.variable + " = " + cpp_call(layer) + ";\n";
  }
  return "// A network written by Lockstep. Input: " + code.title + R"(.
#include <string>
#include <tuple>

#include <torch/torch.h>

struct NetworkImpl : torch::nn::Module {
  NetworkImpl() {
)" + constructor +
         R"(  }

  torch::Tensor forward(const torch::Tensor& x) {
)" + forward +
         "    return " + code.output + R"(;
  }

 private:
  /// Registers a layer; the dots of its path make groups.
  template <class Layer>
  Layer add(const std::string& path, Layer layer) {
    torch::nn::Module* parent = this;
    size_t begin = 0;
    for (size_t dot = path.find('.'); dot != std::string::npos; begin = dot + 1, dot = path.find('.', begin)) {
      const std::string group = path.substr(begin, dot - begin);
      const auto known = parent->named_children();
      parent = known.contains(group) ? known[group].get()
                                     : parent->register_module(group, std::make_shared<torch::nn::Module>()).get();
    }
    return parent->register_module(path.substr(begin), layer);
  }

)" + members +
         R"(};
TORCH_MODULE(Network);
)";
}

}  // namespace lockstep::onnx
