#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/onnx/code.h"
#include "lockstep/onnx/internal/code_layers.h"

namespace lockstep::onnx {
namespace {

// Attributes of torch.nn.Module, which refuses modules with these names.
constexpr std::array<std::string_view, 58> kUsedByModule{"T_destination",
                                                         "add_module",
                                                         "apply",
                                                         "bfloat16",
                                                         "buffers",
                                                         "call_super_init",
                                                         "children",
                                                         "compile",
                                                         "cpu",
                                                         "cuda",
                                                         "double",
                                                         "dump_patches",
                                                         "eval",
                                                         "extra_repr",
                                                         "float",
                                                         "forward",
                                                         "get_buffer",
                                                         "get_extra_state",
                                                         "get_parameter",
                                                         "get_submodule",
                                                         "half",
                                                         "ipu",
                                                         "load_state_dict",
                                                         "modules",
                                                         "mtia",
                                                         "named_buffers",
                                                         "named_children",
                                                         "named_modules",
                                                         "named_parameters",
                                                         "parameters",
                                                         "register_backward_hook",
                                                         "register_buffer",
                                                         "register_forward_hook",
                                                         "register_forward_pre_hook",
                                                         "register_full_backward_hook",
                                                         "register_full_backward_pre_hook",
                                                         "register_load_state_dict_post_hook",
                                                         "register_load_state_dict_pre_hook",
                                                         "register_module",
                                                         "register_parameter",
                                                         "register_state_dict_post_hook",
                                                         "register_state_dict_pre_hook",
                                                         "requires_grad_",
                                                         "set_extra_state",
                                                         "set_submodule",
                                                         "share_memory",
                                                         "state_dict",
                                                         "to",
                                                         "to_empty",
                                                         "train",
                                                         "training",
                                                         "type",
                                                         "xpu",
                                                         "zero_grad",
                                                         "_apply",
                                                         "_add",
                                                         "_run",
                                                         "dict"};

std::string python_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

void check_name(const std::string& name) {
  for (const std::string& part : split(name, '.')) {
    if (std::find(kUsedByModule.begin(), kUsedByModule.end(), part) == kUsedByModule.end()) continue;
    throw Error(ErrorCode::invalid_option,
                "layer " + quote(name) + " cannot be written in Python, where " + quote(part) +
                    " is an attribute of torch.nn.Module",
                "rename the layer");
  }
}

std::string python_value(const CodeArgument& argument) {
  if (argument.is_switch) return argument.numbers[0] != 0 ? "True" : "False";
  std::vector<std::string> numbers;
  for (const double number : argument.numbers)
    numbers.push_back(argument.is_integer ? std::to_string(static_cast<int64_t>(number)) : shortest(number));
  return numbers.size() == 1 ? numbers[0] : "(" + join(numbers, ", ") + ")";
}

std::string constructor_of(const CodeLayer& layer) {
  std::vector<std::string> arguments;
  for (const CodeArgument& argument : layer.required) arguments.push_back(python_value(argument));
  for (const CodeArgument& argument : layer.options)
    arguments.push_back(argument.name + "=" + python_value(argument));
  return "nn." + layer.module + "(" + join(arguments, ", ") + ")";
}

std::string call_of(const CodeLayer& layer) {
  const std::string& input = layer.inputs[0];
  const std::string run = "self._run(" + python_text(layer.name) + ", ";
  switch (layer.call) {
    case CodeCall::add:
      return join(layer.inputs, " + ");
    case CodeCall::join:
      return "torch.cat([" + join(layer.inputs, ", ") + "], 1)";
    case CodeCall::flatten:
      return input + ".flatten(1)";
    case CodeCall::steps:
      return run + input + ".transpose(1, 2)).transpose(1, 2)";
    case CodeCall::sequence:
      return run + input + ".transpose(1, 2))[0].transpose(1, 2)";
    case CodeCall::last_step:
      return run + input + ".transpose(1, 2))[0][:, -1]";
    case CodeCall::last_ways:
      return "torch.cat(tuple(" + run + input + ".transpose(1, 2))[1][0][-2:]), 1)";
    case CodeCall::padded:
      return run + "nn.functional.pad(" + input + ", (" + std::to_string(layer.padding.first) + ", " +
             std::to_string(layer.padding.second) + ")))";
    case CodeCall::mean:
      return input + ".mean(2)";
    case CodeCall::maximum:
      return input + ".amax(2)";
    case CodeCall::maximum_of_image:
      return input + ".amax((2, 3), keepdim=True)";
    case CodeCall::module:
      break;
  }
  return run + input + ")";
}

}  // namespace

std::string pytorch_code(const nn::Network& network, const nn::NetworkInput& input) {
  const CodeNetwork code = code_network(network, input, "x");
  std::string text = "\"\"\"A network written by Lockstep. Input: " + code.title + ".\n\n" +
                     "    network = Network()\n"
                     "    network.load_state_dict(safetensors.torch.load_file(\"model.safetensors\"))\n"
                     "    logits = network.eval()(x)\n\"\"\"\n\n"
                     "import torch\nfrom torch import nn\n\n\n"
                     "class Network(nn.Module):\n"
                     "    def __init__(self):\n"
                     "        super().__init__()\n";
  std::string forward = "    def forward(self, x):\n";
  for (const CodeLayer& layer : code.layers) {
    if (!layer.module.empty()) {
      check_name(layer.name);
      text += "        self._add(" + python_text(layer.name) + ", " + constructor_of(layer) + ")\n";
    }
    forward += "        " + layer.variable + " = " + call_of(layer) + "\n";
  }
  return text + "\n" + forward + "        return " + code.output + "\n" +
         R"(
    def _add(self, path, layer):
        """Registers a layer; the dots of its path make groups."""
        *groups, name = path.split(".")
        parent = self
        for group in groups:
            if group not in dict(parent.named_children()):
                parent.add_module(group, nn.Module())
            parent = parent.get_submodule(group)
        parent.add_module(name, layer)

    def _run(self, path, x):
        return self.get_submodule(path)(x)
)";
}

}  // namespace lockstep::onnx
