// LSTM and GRU layers in ONNX. Its operators take [T,batch,C] and have their gates in another order.
#include <ATen/Functions.h>

#include "lockstep/nn/layers/recurrent.h"
#include "lockstep/onnx/internal/gates.h"
#include "lockstep/onnx/internal/layer_writers.h"

namespace lockstep::onnx {
namespace {

struct RecurrentOp {
  const char* op;
  GateOrder order;
  std::vector<std::string> ways;  ///< the ends of the names of the tensors of each direction
};

/// The tensors of all directions of one layer, in ONNX's form.
std::vector<std::string> add_tensors(GraphBuilder& graph, const LayerToWrite& layer,
                                     const std::string& suffix, const RecurrentOp& kind) {
  const std::string& name = layer.name();
  std::vector<at::Tensor> weights, recurrences, biases;
  for (const std::string& way : kind.ways) {
    const auto reordered = [&](const std::string& tensor) {
      return to_onnx_gates(layer.tensors.at(name, tensor + suffix + way), kind.order);
    };
    weights.push_back(reordered("weight_ih"));
    recurrences.push_back(reordered("weight_hh"));
    biases.push_back(at::cat({reordered("bias_ih"), reordered("bias_hh")}));
  }
  return {graph.add_tensor(name + ".weight_ih" + suffix, at::stack(weights)),
          graph.add_tensor(name + ".weight_hh" + suffix, at::stack(recurrences)),
          graph.add_tensor(name + ".bias" + suffix, at::stack(biases))};
}

/// The outputs of both directions [T,2,batch,H] side by side, [T,batch,2H]; or the states [2,batch,H].
std::string side_by_side(GraphBuilder& graph, const std::string& part, const std::string& value, bool state) {
  const std::vector<int64_t> order = state ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>{0, 2, 1, 3};
  const std::vector<int64_t> shape = state ? std::vector<int64_t>{0, -1} : std::vector<int64_t>{0, 0, -1};
  const std::string ways = graph.add({"Transpose", part + "/ways", {value}, {{"perm", order}}});
  return graph.add({"Reshape", part + "/joined", {ways, graph.add_integers(part + "/shape", shape)}});
}

std::string write_recurrent(GraphBuilder& graph, const LayerToWrite& layer, const RecurrentOp& kind) {
  const auto options = layer.options_as<nn::Recurrent>();
  const std::string& name = layer.name();
  const bool sequence = options.output == nn::OutputMode::sequence, both_ways = kind.ways.size() == 2;
  std::string values = graph.add(
      {"Transpose", name + "/by_time", {layer.inputs[0]}, {{"perm", std::vector<int64_t>{2, 0, 1}}}});
  std::string last;
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string part = name + "/" + std::to_string(i);
    std::vector<std::string> inputs = add_tensors(graph, layer, "_l" + std::to_string(i), kind);
    inputs.insert(inputs.begin(), values);
    Attributes attributes{{"hidden_size", options.hidden}};
    if (both_ways) attributes.emplace_back("direction", std::string("bidirectional"));
    // As in PyTorch, the reset gate acts on the product of the hidden state.
    if (kind.order == GateOrder::gru) attributes.emplace_back("linear_before_reset", int64_t{1});
    const auto outputs = graph.add_all({kind.op, part, inputs, attributes, 2});
    last = outputs[1];
    if (!sequence && i + 1 == options.layers) break;
    values = both_ways ? side_by_side(graph, part, outputs[0], false)
                       : graph.add({"Squeeze",
                                    part + "/outputs",
                                    {outputs[0], graph.add_integers(part + "/direction_axis", {1})}});
  }
  if (sequence) return graph.add({"Transpose", name, {values}, {{"perm", std::vector<int64_t>{1, 2, 0}}}});
  if (both_ways) return side_by_side(graph, name + "/last", last, true);
  return graph.add({"Squeeze", name, {last, graph.add_integers(name + "/last_axis", {0})}});
}

}  // namespace

std::string write_lstm(GraphBuilder& graph, const LayerToWrite& layer) {
  return write_recurrent(graph, layer, {"LSTM", GateOrder::lstm, {""}});
}

std::string write_bilstm(GraphBuilder& graph, const LayerToWrite& layer) {
  return write_recurrent(graph, layer, {"LSTM", GateOrder::lstm, {"", "_reverse"}});
}

std::string write_gru(GraphBuilder& graph, const LayerToWrite& layer) {
  return write_recurrent(graph, layer, {"GRU", GateOrder::gru, {""}});
}

}  // namespace lockstep::onnx
