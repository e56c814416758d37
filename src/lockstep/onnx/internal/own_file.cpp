#include "lockstep/onnx/internal/own_file.h"

#include <unordered_map>

#include <ATen/Functions.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/layers.h"
#include "lockstep/onnx/internal/gates.h"
#include "lockstep/onnx/internal/write_model.h"

namespace lockstep::onnx {
namespace {

using StoredTensors = std::unordered_map<std::string, const proto::Tensor*>;

/// What the file lacks, or has in another form, than Lockstep writes it.
struct NotOwn {};

at::Tensor stored(const StoredTensors& all, const std::string& name, TensorReader& tensors) {
  const auto found = all.find(name);
  if (found == all.end()) throw NotOwn();
  return tensors.read(*found->second);
}

/// A tensor of an LSTM or GRU, as recurrent_writers.cpp stores it; that of the reverse direction comes
/// second.
at::Tensor recurrent_tensor(const StoredTensors& all, const nn::GraphLayer& layer, const std::string& tensor,
                            TensorReader& tensors) {
  const GateOrder order = layer.type->name == "gru" ? GateOrder::gru : GateOrder::lstm;
  const std::string reverse = "_reverse";
  const bool second = tensor.ends_with(reverse);
  const std::string forward = second ? tensor.substr(0, tensor.size() - reverse.size()) : tensor;
  if (tensor.starts_with("weight"))
    return from_onnx_gates(stored(all, layer.name + "." + forward, tensors)[second ? 1 : 0], order);
  const at::Tensor biases =
      stored(all, layer.name + ".bias" + forward.substr(forward.find("_l")), tensors)[second ? 1 : 0];
  return from_onnx_gates(biases.reshape({2, -1})[forward.starts_with("bias_ih") ? 0 : 1], order);
}

nn::NamedTensors state_in(const proto::Graph& graph, const TrainedNetwork& trained, const Json& batches,
                          TensorReader& tensors) {
  StoredTensors all;
  for (const proto::Tensor& tensor : graph.initializer()) all.emplace(tensor.name(), &tensor);
  const nn::LayerGraph layers = nn::read_graph(trained.network.spec());
  const nn::GraphPlan plan = nn::plan_graph(layers, trained.input);
  nn::NamedTensors state;
  for (size_t i = 0; i < layers.layers.size(); ++i) {
    const nn::GraphLayer& layer = layers.layers[i];
    const bool recurrent = layer.type->name.ends_with("lstm") || layer.type->name == "gru";
    for (const auto* planned : {&plan.layers[i].learnables, &plan.layers[i].states}) {
      for (const nn::TensorPlan& tensor : *planned) {
        const std::string name = layer.name + "." + tensor.name;
        state.emplace_back(name, recurrent ? recurrent_tensor(all, layer, tensor.name, tensors)
                                           : stored(all, name, tensors));
      }
    }
  }
  for (const auto& [name, count] : batches.items())
    state.emplace_back(name, at::scalar_tensor(count.get<int64_t>(), at::kLong));
  return state;
}

template <class Parts>
bool are_equal(const Parts& a, const Parts& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    if (a[i].SerializeAsString() != b[i].SerializeAsString()) return false;
  }
  return true;
}

bool are_equal(const proto::Graph& a, const proto::Graph& b) {
  return are_equal(a.node(), b.node()) && are_equal(a.initializer(), b.initializer()) &&
         are_equal(a.input(), b.input()) && are_equal(a.output(), b.output());
}

Imported restored(const proto::Model& model, const Json& entry, TensorReader& tensors) {
  const Json& size = entry.at("input");
  TrainedNetwork trained{.network = nn::read_network(entry.at("network"), model.graph().name()),
                         .input = {.channels = size.at("channels"),
                                   .height = size.at("height"),
                                   .width = size.at("width"),
                                   .classes = size.at("classes"),
                                   .time_steps = size.at("time_steps"),
                                   .labels_time_steps = size.at("labels_time_steps")}};
  trained.mean = entry.at("mean").get<std::vector<double>>();
  trained.deviation = entry.at("deviation").get<std::vector<double>>();
  trained.state = state_in(model.graph(), trained, entry.at("num_batches_tracked"), tensors);
  const ExportOptions options{.normalized_input = entry.at("normalized_input"), .scores = entry.at("scores")};
  // The sizes in the metadata may be any, so no more is computed than the file can have.
  const proto::Graph again = graph_of(trained, options, model.graph().ByteSizeLong());
  if (!are_equal(model.graph(), again)) throw NotOwn();
  return {.trained = std::move(trained)};
}

}  // namespace

std::optional<Imported> restore_own(const proto::Model& model, TensorReader& tensors) {
  for (const proto::Entry& entry : model.metadata_props()) {
    if (entry.key() != kOwnKey) continue;
    try {
      return restored(model, parse_json(entry.value(), KeyTwice::refused), tensors);
    } catch (const NotOwn&) {
    } catch (const Error&) {
    } catch (const Json::exception&) {
    } catch (const c10::Error&) {
    }
    return std::nullopt;  // imported like a file of another program
  }
  return std::nullopt;
}

}  // namespace lockstep::onnx
