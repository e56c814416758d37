#include "lockstep/nn/graph_network.h"

#include <algorithm>
#include <map>
#include <optional>

#include <ATen/ops/full.h>
#include <c10/util/accumulate.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/memory_order.h"

namespace lockstep::nn {
namespace {

/// The channels of the images that a concatenation leaves in its slot.
struct JoinedPlace {
  size_t slot;
  int64_t begin;
  int64_t channels;  ///< channels of the images
};

/// One layer in the order of evaluation. Slot 0 holds the input; slot i + 1 holds the output of layer i.
struct Step {
  BuiltLayer layer;
  std::optional<JoinedPlace>
      joined;  ///< where the layer writes; for a concatenation, where its inputs have written
  std::vector<size_t> inputs;
  std::vector<size_t> finished;  ///< slots that no later layer reads
  size_t output = 0;
  size_t hidden_states_begin = 0;  ///< start of the layer's part of the recurrent state
  size_t hidden_state_count = 0;
};

size_t slot_of(size_t layer) { return layer == kInputIndex ? 0 : layer + 1; }

/// Convolutions pass the memory layout on.
at::Tensor preferred_layout(const at::Tensor& images) {
  return at::GradMode::is_enabled() || kernels::DirectKernels::enabled() ? kernels::channels_last(images)
                                                                         : images;
}

class GraphNetwork : public torch::nn::Module {
 public:
  GraphNetwork(std::vector<Step> steps, size_t slot_count)
      : steps_(std::move(steps)), slot_count_(slot_count) {}

  at::Tensor forward(const at::Tensor& images) const {
    if (images.dim() == 3) return forward_sequences(whole_sequences(images)).logits;
    std::vector<at::Tensor> hidden_state;
    return run(preferred_layout(images), {}, hidden_state);
  }

  at::Tensor forward_part(const at::Tensor& input, size_t begin, size_t end) const {
    std::vector<at::Tensor> slots(slot_count_);
    slots[begin == 0 ? 0 : steps_[begin - 1].output] = preferred_layout(input);
    for (size_t i = begin; i < end; ++i) {
      take_step(steps_[i], slots);
      tell(i, slots);
    }
    return slots[steps_[end - 1].output];
  }

  SequenceOutput forward_sequences(const Sequences& sequences) const {
    SequenceOutput output{.hidden_state = sequences.hidden_state};
    output.logits = run(sequences.values, {sequences.lengths, sequences.padded_left}, output.hidden_state);
    return output;
  }

  void observe(LayerObserver observer) { observer_ = std::move(observer); }

 private:
  void tell(size_t step, const std::vector<at::Tensor>& slots) const {
    if (observer_) observer_(step, slots[steps_[step].output]);
  }

  static std::vector<at::Tensor> take_inputs(const Step& step, std::vector<at::Tensor>& slots) {
    std::vector<at::Tensor> taken;
    for (const size_t input : step.inputs) taken.push_back(slots[input]);
    for (const size_t slot : step.finished) slots[slot] = at::Tensor();
    return taken;
  }

  // Sequences then have no padding and start with an empty state.
  static void take_step(const Step& step, std::vector<at::Tensor>& slots) {
    std::vector<at::Tensor> taken = take_inputs(step, slots), hidden_state;
    if (step.joined) {
      slots[step.output] = step.layer.forward_joined(
          taken, {slots[step.joined->slot], step.joined->begin, step.joined->channels});
      return;
    }
    slots[step.output] =
        step.layer.forward_sequence
            ? step.layer.forward_sequence(taken[0], {whole_sequences(taken[0]).lengths}, hidden_state)
            : step.layer.forward(taken);
  }

  /// `hidden_state` becomes the state after the last time step.
  at::Tensor run(const at::Tensor& input, const TimeSteps& times,
                 std::vector<at::Tensor>& hidden_state) const {
    std::vector<at::Tensor> after, slots(slot_count_);
    slots[0] = input;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (!step.layer.forward_sequence) {
        take_step(step, slots);
        tell(i, slots);
        continue;
      }
      const std::vector<at::Tensor> taken = take_inputs(step, slots);
      const auto begin = hidden_state.begin() +
                         static_cast<std::ptrdiff_t>(hidden_state.empty() ? 0 : step.hidden_states_begin);
      std::vector<at::Tensor> own(
          begin, begin + static_cast<std::ptrdiff_t>(hidden_state.empty() ? 0 : step.hidden_state_count));
      slots[step.output] = step.layer.forward_sequence(taken[0], times, own);
      after.insert(after.end(), own.begin(), own.end());
      tell(i, slots);
    }
    hidden_state = std::move(after);
    return slots[steps_.back().output];
  }

  std::vector<Step> steps_;
  size_t slot_count_;
  LayerObserver observer_;
};

/// Registers each layer's module under its path, and creates the modules in between.
class ModuleTree {
 public:
  explicit ModuleTree(std::shared_ptr<torch::nn::Module> root) { nodes_.emplace("", std::move(root)); }

  void add(const std::string& path, const std::shared_ptr<torch::nn::Module>& module) {
    const size_t dot = path.rfind('.');
    const std::string group = dot == std::string::npos ? "" : path.substr(0, dot);
    node(group).register_module(dot == std::string::npos ? path : path.substr(dot + 1), module);
  }

 private:
  torch::nn::Module& node(const std::string& path) {
    const auto found = nodes_.find(path);
    if (found != nodes_.end()) return *found->second;
    auto group = std::make_shared<torch::nn::Module>();
    add(path, group);
    nodes_.emplace(path, group);
    return *group;
  }

  std::map<std::string, std::shared_ptr<torch::nn::Module>> nodes_;
};

/// For each layer, how many inputs of other layers it is.
std::vector<size_t> use_counts(const LayerGraph& graph) {
  std::vector<size_t> counts(graph.layers.size());
  for (const GraphLayer& layer : graph.layers) {
    for (const size_t input : layer.inputs) {
      if (input != kInputIndex) ++counts[input];
    }
  }
  return counts;
}

/// The layer before a ReLU that can be computed in one pass with it; kInputIndex for any other layer.
size_t fusible_layer(const LayerGraph& graph, const GraphPlan& plan, const std::vector<size_t>& uses,
                     size_t layer) {
  const size_t from = graph.layers[layer].inputs.front();
  return graph.layers[layer].type->name == "relu" && from != kInputIndex && uses[from] == 1 &&
                 plan.layers[from].build_with_relu
             ? from
             : kInputIndex;
}

/// For each layer, whether it is a ReLU that its only reader may compute after itself, because all inputs of
/// the reader are such ReLUs.
std::vector<bool> joined_by_readers(const LayerGraph& graph, const GraphPlan& plan,
                                    const std::vector<size_t>& uses, const std::vector<size_t>& fused) {
  std::vector<bool> joined(graph.layers.size());
  const auto is_lone_relu = [&](size_t layer) {
    return layer != kInputIndex && graph.layers[layer].type->name == "relu" && uses[layer] == 1 &&
           fused[layer] == kInputIndex;
  };
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const auto& inputs = graph.layers[i].inputs;
    if (!plan.layers[i].relu_may_precede || !plan.layers[i].build_with_relu ||
        !std::all_of(inputs.begin(), inputs.end(), is_lone_relu))
      continue;
    for (const size_t input : inputs) joined[input] = true;
  }
  return joined;
}

BuiltLayer pass_on() {
  return {nullptr, [](const std::vector<at::Tensor>& taken) { return taken[0]; }};
}

/// Whether the layer is a flatten whose only reader flattens its input itself.
bool is_flattened_by_reader(const LayerGraph& graph, const GraphPlan& plan, const std::vector<size_t>& uses,
                            size_t layer) {
  if (graph.layers[layer].type->name != "flatten" || uses[layer] != 1) return false;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (plan.layers[i].flattens && graph.layers[i].inputs.front() == layer) return true;
  }
  return false;
}

struct PlacedLayer {
  BuiltLayer layer;
  std::optional<JoinedPlace> joined;
};

/// For concatenations that are computed together with the ReLUs before them: where the layers before those
/// write.
void place_joined(const LayerGraph& graph, const GraphPlan& plan, const std::vector<size_t>& uses,
                  const std::vector<bool>& joined, std::vector<PlacedLayer>& built) {
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const auto& relus = graph.layers[i].inputs;
    if (relus.front() == kInputIndex || !joined[relus.front()] || !built[i].layer.forward_joined) continue;
    JoinedPlace place{slot_of(i), 0, plan.layers[i].output.front()};
    built[i].joined = place;
    for (const size_t relu : relus) {
      const size_t layer = graph.layers[relu].inputs.front();
      if (layer != kInputIndex && uses[layer] == 1 && built[layer].layer.forward_joined)
        built[layer].joined = place;
      place.begin += plan.layers[relu].output.front();
    }
  }
}

std::vector<PlacedLayer> build_layers(const LayerGraph& graph, const GraphPlan& plan, size_t observed) {
  std::vector<size_t> uses = use_counts(graph);
  if (observed != kInputIndex) ++uses[observed];  // an observer counts as a reader
  std::vector<size_t> fused(graph.layers.size(), kInputIndex);
  const auto fuse = [&](auto&& wanted) {
    for (size_t i = 0; i < graph.layers.size(); ++i) {
      const size_t from = fusible_layer(graph, plan, uses, i);
      if (from != kInputIndex && wanted(i, plan.layers[from])) fused[i] = from;
    }
  };
  fuse([](size_t, const LayerPlan& from) { return !from.readers_take_relu; });
  const std::vector<bool> joined = joined_by_readers(graph, plan, uses, fused);
  fuse([&](size_t relu, const LayerPlan&) { return !joined[relu]; });
  std::vector<bool> has_relu(graph.layers.size());
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const auto& inputs = graph.layers[i].inputs;
    if (fused[i] != kInputIndex) has_relu[fused[i]] = true;
    if (inputs.front() != kInputIndex && joined[inputs.front()]) has_relu[i] = true;
  }
  std::vector<PlacedLayer> built;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const size_t from = graph.layers[i].inputs.front();
    if (fused[i] != kInputIndex || joined[i] || is_flattened_by_reader(graph, plan, uses, i)) {
      built.push_back({pass_on(), {}});
      continue;
    }
    const bool overwrite = plan.layers[i].can_overwrite && from != kInputIndex && uses[from] == 1 &&
                           plan.layers[from].output_is_reusable;
    try {
      built.push_back({has_relu[i] ? plan.layers[i].build_with_relu() : plan.layers[i].build(overwrite), {}});
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::out_of_memory, layer_title(graph.layers[i]) + " does not fit into memory");
    } catch (const c10::Error& error) {
      throw Error(ErrorCode::out_of_memory,
                  layer_title(graph.layers[i]) + " cannot be built: " + error.what_without_backtrace());
    }
  }
  place_joined(graph, plan, uses, joined, built);
  return built;
}

std::vector<Step> steps_of(const LayerGraph& graph, const GraphPlan& plan,
                           const std::vector<PlacedLayer>& built) {
  std::vector<Step> steps;
  size_t hidden_state = 0;
  std::vector<size_t> last_use(graph.layers.size() + 1);
  for (const size_t index : graph.order) {
    Step step{built[index].layer,
              built[index].joined,
              {},
              {},
              slot_of(index),
              hidden_state,
              plan.layers[index].hidden_state.size()};
    hidden_state += step.hidden_state_count;
    for (const size_t input : graph.layers[index].inputs) {
      step.inputs.push_back(slot_of(input));
      last_use[slot_of(input)] = steps.size();
    }
    steps.push_back(std::move(step));
  }
  for (size_t slot = 0; slot < last_use.size(); ++slot) {
    if (slot != slot_of(graph.output)) steps[last_use[slot]].finished.push_back(slot);
  }
  return steps;
}

std::vector<HiddenState> hidden_states_of(const LayerGraph& graph, const GraphPlan& plan) {
  std::vector<HiddenState> all;
  for (const size_t index : graph.order) {
    for (const TensorPlan& state : plan.layers[index].hidden_state)
      all.push_back({graph.layers[index].name + "." + state.name, state.shape});
  }
  return all;
}

std::vector<InstanceLayer> instance_layers(const LayerGraph& graph, const GraphPlan& plan) {
  std::vector<size_t> place(graph.layers.size());
  for (size_t i = 0; i < graph.order.size(); ++i) place[graph.order[i]] = i;
  // For each layer, the earliest layer whose output it or a later layer reads; 0 is the network's input, i +
  // 1 is layer i.
  std::vector<size_t> earliest(graph.order.size() + 1, graph.order.size() + 1);
  for (size_t i = graph.order.size(); i-- > 0;) {
    earliest[i] = earliest[i + 1];
    for (const size_t input : graph.layers[graph.order[i]].inputs)
      earliest[i] = std::min(earliest[i], input == kInputIndex ? 0 : place[input] + 1);
  }
  std::vector<InstanceLayer> layers;
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const LayerPlan& planned = plan.layers[graph.order[i]];
    layers.push_back({.name = graph.layers[graph.order[i]].name,
                      .random = planned.random,
                      .keeps_shards_apart = planned.keeps_shards_apart,
                      .needs_whole_sequences = planned.needs_whole_sequences,
                      .ends_part = earliest[i + 1] >= i + 1,
                      .output_count = c10::multiply_integers(planned.output)});
  }
  for (const size_t index : graph.order) {
    for (const size_t input : graph.layers[index].inputs) {
      if (input != kInputIndex) layers[place[input]].read_by.push_back(graph.layers[index].name);
    }
  }
  return layers;
}

}  // namespace

Sequences whole_sequences(const at::Tensor& values) {
  return {.values = values, .lengths = at::full({values.size(0)}, values.size(2), at::kLong)};
}

Instance build_graph(const LayerGraph& graph, const GraphPlan& plan, size_t observed) {
  const std::vector<PlacedLayer> built = build_layers(graph, plan, observed);
  auto network = std::make_shared<GraphNetwork>(steps_of(graph, plan, built), graph.layers.size() + 1);
  ModuleTree tree(network);
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (built[i].layer.module) tree.add(graph.layers[i].name, built[i].layer.module);
  }
  return {network,
          [network](const at::Tensor& images) { return network->forward(images); },
          [network](const Sequences& sequences) { return network->forward_sequences(sequences); },
          hidden_states_of(graph, plan),
          instance_layers(graph, plan),
          [network](const at::Tensor& input, size_t begin, size_t end) {
            return network->forward_part(input, begin, end);
          },
          [network](LayerObserver observer) { network->observe(std::move(observer)); }};
}

}  // namespace lockstep::nn
