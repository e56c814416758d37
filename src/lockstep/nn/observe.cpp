#include "lockstep/nn/observe.h"

#include <algorithm>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/graph_network.h"
#include "lockstep/nn/graph_plan.h"
#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

constexpr size_t kMostNamed = 12;

std::string names_of(const std::vector<std::string>& known) {
  std::vector<std::string> named;
  for (size_t i = 0; i < std::min(known.size(), kMostNamed); ++i) named.push_back(in_quotes(known[i]));
  const size_t left = known.size() - named.size();
  return "its layers are " + join(named, ", ") +
         (left == 0 ? "" : " and " + std::to_string(left) + " more; lockstep network show lists them");
}

[[noreturn]] void no_such_layer(const Network& network, const LayerGraph& graph, const std::string& layer) {
  std::vector<std::string> known;
  for (const size_t index : graph.order) known.push_back(graph.layers[index].name);
  const std::string found = nearest(layer, known);
  std::string hint = found.empty() ? "" : "did you mean " + in_quotes(found) + "? ";
  hint += found.empty() || known.size() <= kMostNamed
              ? names_of(known)
              : "lockstep network show lists all " + std::to_string(known.size());
  throw Error(ErrorCode::invalid_option,
              "network " + in_quotes(network.name()) + " has no layer " + in_quotes(layer), hint);
}

}  // namespace

ObservedLayer observe_layer(const Network& network, const NetworkInput& input, const std::string& layer) {
  if (network.spec().is_null()) {
    throw Error(ErrorCode::invalid_option,
                "network " + in_quotes(network.name()) + " is a C++ module, so its layers have no names");
  }
  const auto graph = std::make_shared<const LayerGraph>(read_graph(network.spec()));
  const auto found = std::find_if(graph->order.begin(), graph->order.end(),
                                  [&](size_t index) { return graph->layers[index].name == layer; });
  if (found == graph->order.end()) no_such_layer(network, *graph, layer);
  const size_t index = *found;
  return {Network(
              network.name(),
              [graph, index](const NetworkInput& given) {
                return build_graph(*graph, plan_graph(*graph, given), index);
              },
              network.spec()),
          static_cast<size_t>(found - graph->order.begin()) + 1,
          plan_graph(*graph, input).layers[index].output};
}

}  // namespace lockstep::nn
