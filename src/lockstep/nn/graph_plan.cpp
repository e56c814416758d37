#include "lockstep/nn/graph_plan.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kMostInputSize = int64_t{1} << 24;
constexpr int64_t kLargestSideTried = 1024;  // in the search for the smallest image that fits

/// A Misfit and its layer.
struct LayerMisfit {
  size_t layer;
  Misfit misfit;
};

void check_input(const NetworkInput& input) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"channels", input.channels},
      {"height", input.height},
      {"width", input.width},
      {"classes", input.classes},
      {"time steps", input.time_steps == 0 ? 1 : input.time_steps}};
  for (const auto& [name, value] : sizes) {
    if (value < 1 || value > kMostInputSize) {
      throw Error(ErrorCode::invalid_option, "a network's " + std::string(name) + " cannot be " +
                                                 std::to_string(value) + ": it must be from 1 to " +
                                                 with_commas(kMostInputSize));
    }
  }
}

LayerPlan plan_layer(const LayerGraph& graph, const GraphPlan& plan, size_t index,
                     const NetworkInput& input) {
  const GraphLayer& layer = graph.layers[index];
  std::vector<LayerInput> inputs;
  for (const size_t from : layer.inputs) {
    if (from == kInputIndex) {
      inputs.push_back({"input", input.time_steps > 0 ? Shape{input.channels, input.time_steps}
                                                      : Shape{input.channels, input.height, input.width}});
    } else {
      inputs.push_back({graph.layers[from].name, plan.layers[from].output});
    }
  }
  Json options = layer.options;
  for (const char* key : {"filters", "features"}) {
    if (options.contains(key) && options[key] == "classes") options[key] = input.classes;
  }
  LayerPlan planned = layer.type->plan(options, inputs);
  for (const TensorPlan& tensor : planned.learnables) checked_count(tensor.shape, "a " + tensor.name);
  return planned;
}

void check_output(const LayerPlan& last, const NetworkInput& input) {
  if (!last.gives_logits)
    throw Misfit{
        "is the last layer, but a network must return logits: the loss and the scores apply softmax "
        "themselves",
        "remove this layer"};
  const Shape wanted =
      input.labels_time_steps ? Shape{input.classes, input.time_steps} : Shape{input.classes};
  if (last.output == wanted) return;
  std::string hint = "the last layer is usually {\"type\": \"linear\", \"features\": \"classes\"}";
  if (last.output == Shape{input.classes, input.time_steps})
    hint = "each sequence has one class, so set \"output\": \"last\" in the lstm or gru layer before it";
  if (input.labels_time_steps && last.output == Shape{input.classes})
    hint = "each time step has a class, so set \"output\": \"sequence\" in the lstm or gru layer before it";
  if (last.output == Shape{input.classes, 1, 1}) hint = "add a flatten layer after it";
  throw Misfit{"is the last layer and returns " + shape_text(last.output) + ", but " +
                   std::to_string(input.classes) + " classes need " + shape_text(wanted),
               hint};
}

enum class Part { whole, without_head };

/// Throws LayerMisfit. Only a whole network must return logits.
GraphPlan try_plan(const LayerGraph& graph, const NetworkInput& input, Part part) {
  GraphPlan plan{std::vector<LayerPlan>(graph.layers.size())};
  size_t at = 0;
  try {
    int64_t learnable_count = 0;
    for (const size_t index : graph.order) {
      at = index;
      plan.layers[index] = plan_layer(graph, plan, index, input);
      for (const TensorPlan& tensor : plan.layers[index].learnables)
        learnable_count += checked_count(tensor.shape, tensor.name);
      if (learnable_count > kMostNumbers)
        throw Misfit{
            "would give the network more than the maximum of " + with_commas(kMostNumbers) + " learnables",
            ""};
    }
    at = graph.output;
    if (part == Part::whole) check_output(plan.layers[graph.output], input);
  } catch (Misfit& misfit) {
    throw LayerMisfit{at, std::move(misfit)};
  }
  return plan;
}

std::optional<int64_t> smallest_side(const LayerGraph& graph, NetworkInput input) {
  for (int64_t side = std::min(input.height, input.width) + 1; side <= kLargestSideTried; ++side) {
    input.height = input.width = side;
    try {
      try_plan(graph, input, Part::whole);
      return side;
    } catch (const LayerMisfit& found) {
      if (!found.misfit.too_small) return std::nullopt;
    }
  }
  return std::nullopt;
}

GraphPlan plan_part(const LayerGraph& graph, const NetworkInput& input, Part part) {
  check_input(input);
  try {
    return try_plan(graph, input, part);
  } catch (LayerMisfit& found) {
    std::string hint = found.misfit.hint;
    if (found.misfit.too_small) {
      if (const auto side = smallest_side(graph, input)) {
        hint = "the smallest square image that fits this network is " + pair_text({*side, *side}) +
               "; the images are " + pair_text({input.height, input.width});
      }
    }
    throw Error(ErrorCode::invalid_option,
                layer_title(graph.layers[found.layer]) + " " + found.misfit.message, hint);
  }
}

}  // namespace

GraphPlan plan_graph(const LayerGraph& graph, const NetworkInput& input) {
  return plan_part(graph, input, Part::whole);
}

Shape output_shape(const LayerGraph& graph, const NetworkInput& input) {
  return plan_part(graph, input, Part::without_head).layers[graph.output].output;
}

}  // namespace lockstep::nn
