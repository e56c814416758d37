#include "lockstep/nn/layers.h"

#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_network.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/surgery.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kMostFileBytes = int64_t{16} << 20;  // a network of ten thousand layers takes about 1 MB

std::string context_line(const std::string& name) { return "in network " + in_quotes(name); }

int64_t count_of(const std::vector<TensorPlan>& tensors) {
  int64_t count = 0;
  for (const TensorPlan& tensor : tensors) count += checked_count(tensor.shape, tensor.name);
  return count;
}

LayerRow row_of(const LayerGraph& graph, const GraphPlan& plan, size_t index) {
  const GraphLayer& layer = graph.layers[index];
  const LayerPlan& planned = plan.layers[index];
  LayerRow row{
      .name = layer.name, .type = layer.type->name, .detail = planned.detail, .shape = planned.output};
  for (const size_t input : layer.inputs)
    row.inputs.push_back(input == kInputIndex ? "input" : graph.layers[input].name);
  for (const TensorPlan& tensor : planned.learnables) row.learnables.push_back({tensor.name, tensor.shape});
  for (const TensorPlan& tensor : planned.states) row.states.push_back({tensor.name, tensor.shape});
  row.learnable_count = count_of(planned.learnables);
  row.state_count = count_of(planned.states);
  row.runs_direct = planned.runs_direct;
  return row;
}

}  // namespace

Network read_network(const Json& json, std::string name) {
  return with_context([&] { return context_line(name); },
                      [&] {
                        const Json whole = with_changes_made(json);
                        auto graph = std::make_shared<const LayerGraph>(read_graph(whole));
                        return Network(
                            name,
                            [graph, name](const NetworkInput& input) {
                              return with_context(
                                  [&] { return context_line(name); },
                                  [&] { return build_graph(*graph, plan_graph(*graph, input)); });
                            },
                            whole);
                      });
}

Network read_network_file(const std::filesystem::path& path) {
  if (!is_utf8(path.native()))  // run folders and --json store the name as JSON
    throw Error(ErrorCode::invalid_option,
                "the name of the network file " + quote(path.string()) + " is not UTF-8", "rename the file");
  const std::string text = read_file(path, kMostFileBytes);
  const Json json =
      with_context([&] { return context_line(path.string()); }, [&] { return parse_network_json(text); });
  return read_network(json, path.string());
}

Network find_network(const std::string& name) {
  if (name.ends_with(".json")) return read_network_file(name);
  for (const BuiltinNetwork& network : builtin_networks()) {
    if (network.name == name) return read_network(network.graph(), name);
  }
  const std::vector<std::string> known = builtin_network_names();
  const std::string found = nearest(name, known);
  throw Error(ErrorCode::invalid_option, "unknown network " + in_quotes(name),
              found.empty() ? "built-in networks are " + join(known, ", ") +
                                  "; the name of a layer graph file must end in .json"
                            : "did you mean " + found + "?");
}

std::vector<std::string> builtin_network_names() {
  std::vector<std::string> names;
  for (const BuiltinNetwork& network : builtin_networks()) names.push_back(network.name);
  return names;
}

std::optional<NetworkInput> native_input(const std::string& name) {
  for (const BuiltinNetwork& network : builtin_networks()) {
    if (network.name == name) return network.input;
  }
  return std::nullopt;
}

NetworkTable inspect_network(const Network& network, const NetworkInput& input) {
  if (network.spec().is_null()) {
    throw Error(ErrorCode::invalid_option,
                "network " + in_quotes(network.name()) + " is a C++ module, so its layers cannot be listed");
  }
  return with_context([&] { return context_line(network.name()); },
                      [&] {
                        const LayerGraph graph = read_graph(network.spec());
                        const GraphPlan plan = plan_graph(graph, input);
                        NetworkTable table;
                        for (const size_t index : graph.order)
                          table.rows.push_back(row_of(graph, plan, index));
                        return table;
                      });
}

}  // namespace lockstep::nn
