// The layers of a network in the words of torch.nn, for Python and C++.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/nn/network.h"

namespace lockstep::onnx {

/// An argument of a constructor: its name, and a number, true, false, or a pair of numbers.
struct CodeArgument {
  std::string name;
  std::vector<double> numbers;
  bool is_switch = false;
  bool is_integer = true;
  bool is_list = false;  ///< also if it is one number
};

/// How a layer's function is called.
enum class CodeCall {
  module,            ///< name(x)
  add,               ///< a + b
  join,              ///< cat
  flatten,           ///< from the first dimension on
  steps,             ///< a linear layer at each time step of [b,C,T]
  sequence,          ///< an LSTM or GRU, [b,H,T]
  last_step,         ///< the same, its last output [b,H]
  last_ways,         ///< of two directions, [b,2H]
  padded,            ///< a convolution over time, with time steps around the sequence
  mean,              ///< over time
  maximum,           ///< over time
  maximum_of_image,  ///< [b,C,1,1]
};

struct CodeLayer {
  std::string name;                         ///< of the layer
  std::string module;                       ///< a class of torch.nn; empty: a function
  std::vector<CodeArgument> required = {};  ///< without names in Python
  std::vector<CodeArgument> options = {};   ///< that differ from PyTorch's defaults
  CodeCall call = CodeCall::module;
  std::vector<std::string> inputs;           ///< variables
  std::pair<int64_t, int64_t> padding = {};  ///< time steps before and after the sequence
  std::string variable;                      ///< of the output
};

struct CodeNetwork {
  std::string title;              ///< one line about the network
  std::vector<CodeLayer> layers;  ///< in the order of evaluation, which is also that of the state dict
  std::string output;             ///< variable
};

/// `input_variable` is the argument of forward.
CodeNetwork code_network(const nn::Network& network, const nn::NetworkInput& input,
                         const std::string& input_variable);

}  // namespace lockstep::onnx
