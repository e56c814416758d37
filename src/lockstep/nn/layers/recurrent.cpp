#include "lockstep/nn/layers/recurrent.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/rnn.h>

#include "lockstep/nn/recurrence.h"
#include "lockstep/nn/time_span.h"

namespace lockstep::nn {
namespace {

std::vector<CellWeights> weights_of(const torch::nn::Module& module) {
  const std::vector<at::Tensor> all = module.parameters();
  std::vector<CellWeights> layers;
  for (size_t i = 0; i + 3 < all.size(); i += 4)
    layers.push_back({all[i], all[i + 1], all[i + 2], all[i + 3]});
  return layers;
}

enum class Cell { lstm, gru, bilstm };

/// A stack of layers, computed over the unpadded part of a mini-batch.
struct Stack {
  std::vector<CellWeights> weights;
  at::Tensor values;   ///< [count,b,C], then the outputs of the layers so far
  at::Tensor padding;  ///< bool [count,b,1], or undefined
};

/// The outputs after the last time step [b,H]. `hidden_state` is h, and c of an LSTM, [b,layers,H].
at::Tensor run_forward(Stack& stack, Cell cell, std::vector<at::Tensor>& hidden_state) {
  const int64_t rows = stack.values.size(1), hidden = stack.weights.front().hidden.size(1);
  if (hidden_state.empty())
    hidden_state.assign(cell == Cell::lstm ? 2 : 1,
                        at::zeros({rows, static_cast<int64_t>(stack.weights.size()), hidden},
                                  stack.values.options().requires_grad(false)));
  std::vector<at::Tensor> h, c;
  at::Tensor last;
  for (size_t i = 0; i < stack.weights.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const at::Tensor begin = hidden_state[0].select(1, place).contiguous();
    const Recurrence made = cell == Cell::lstm
                                ? run_lstm(stack.values, stack.padding, stack.weights[i], begin,
                                           hidden_state[1].select(1, place).contiguous())
                                : run_gru(stack.values, stack.padding, stack.weights[i], begin);
    stack.values = made.outputs;
    last = made.h;
    h.push_back(made.h.detach());
    if (cell == Cell::lstm) c.push_back(made.c.detach());
  }
  hidden_state[0] = at::stack(h, 1);
  if (cell == Cell::lstm) hidden_state[1] = at::stack(c, 1);
  return last;
}

/// The last outputs of both directions [b,2H]. The weights of each layer are those of the forward direction,
/// then those of the reverse direction. A padded time step changes no state, so it may also come first.
at::Tensor run_both_ways(Stack& stack) {
  const at::Tensor zeros = at::zeros({stack.values.size(1), stack.weights.front().hidden.size(1)},
                                     stack.values.options().requires_grad(false));
  const at::Tensor reversed_padding = stack.padding.defined() ? stack.padding.flip(0) : stack.padding;
  at::Tensor last;
  for (size_t i = 0; i + 1 < stack.weights.size(); i += 2) {
    const Recurrence ahead = run_lstm(stack.values, stack.padding, stack.weights[i], zeros, zeros);
    const Recurrence back =
        run_lstm(stack.values.flip(0), reversed_padding, stack.weights[i + 1], zeros, zeros);
    stack.values = at::cat({ahead.outputs, back.outputs.flip(0)}, 2);
    last = at::cat({ahead.h, back.h}, 1);
  }
  return last;
}

/// Output [b,H,T] or [b,H].
at::Tensor run(const torch::nn::Module& module, Cell cell, OutputMode mode, const at::Tensor& input,
               const TimeSteps& times, std::vector<at::Tensor>& hidden_state) {
  // Sums over hundreds of time steps need the precision of float32, and products of few rows gain nothing
  // from less.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const TimeSpan span = span_of(times, input.size(2), input.device());
  Stack stack{weights_of(module), {}, span.padding};
  stack.values = input.narrow(2, span.begin, span.count)
                     .to(stack.weights.front().input.scalar_type())
                     .permute({2, 0, 1})
                     .contiguous();
  const at::Tensor last =
      cell == Cell::bilstm ? run_both_ways(stack) : run_forward(stack, cell, hidden_state);
  return mode == OutputMode::last ? last : span.widen(stack.values.permute({1, 2, 0}), input.size(2));
}

/// The names of the tensors that one layer and direction learns end with `suffix`.
void add_cell(LayerPlan& plan, int64_t gates, int64_t inputs, int64_t hidden, const std::string& suffix) {
  plan.learnables.push_back({"weight_ih" + suffix, {gates * hidden, inputs}});
  plan.learnables.push_back({"weight_hh" + suffix, {gates * hidden, hidden}});
  plan.learnables.push_back({"bias_ih" + suffix, {gates * hidden}});
  plan.learnables.push_back({"bias_hh" + suffix, {gates * hidden}});
}

template <class Module, class ModuleOptions>
LayerPlan plan_recurrent(const Recurrent& options, const std::vector<LayerInput>& inputs, Cell cell) {
  const LayerInput& input = sequence_input(inputs);
  if (options.hidden == 0)
    throw Misfit{"needs \"hidden\", the size of its hidden state", "add for example \"hidden\": 100"};
  const bool both_ways = cell == Cell::bilstm, sequence = options.output == OutputMode::sequence;
  const int64_t channels = input.shape.front(), gates = cell == Cell::gru ? 3 : 4,
                output = both_ways ? 2 * options.hidden : options.hidden;
  LayerPlan plan{.detail = std::string(sequence ? "every time step" : "last time step") +
                           (options.layers > 1 ? ", " + std::to_string(options.layers) + " layers" : ""),
                 .needs_whole_sequences = both_ways};
  plan.output = sequence ? Shape{output, input.shape.back()} : Shape{output};
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string suffix = "_l" + std::to_string(i);
    add_cell(plan, gates, i == 0 ? channels : output, options.hidden, suffix);
    if (both_ways) add_cell(plan, gates, i == 0 ? channels : output, options.hidden, suffix + "_reverse");
  }
  if (!both_ways) plan.hidden_state.push_back({"h", {options.layers, options.hidden}});
  if (cell == Cell::lstm) plan.hidden_state.push_back({"c", {options.layers, options.hidden}});
  plan.build = [options, channels, cell](bool) {
    auto module = std::make_shared<Module>(ModuleOptions(channels, options.hidden)
                                               .num_layers(options.layers)
                                               .bidirectional(cell == Cell::bilstm));
    BuiltLayer built{.module = module};
    built.forward_sequence = [module, cell, mode = options.output](const at::Tensor& taken,
                                                                   const TimeSteps& times,
                                                                   std::vector<at::Tensor>& hidden_state) {
      return run(*module, cell, mode, taken, times, hidden_state);
    };
    return built;
  };
  return plan;
}

}  // namespace

LayerPlan plan_lstm(const Recurrent& options, const std::vector<LayerInput>& inputs) {
  return plan_recurrent<torch::nn::LSTMImpl, torch::nn::LSTMOptions>(options, inputs, Cell::lstm);
}

LayerPlan plan_bilstm(const Recurrent& options, const std::vector<LayerInput>& inputs) {
  return plan_recurrent<torch::nn::LSTMImpl, torch::nn::LSTMOptions>(options, inputs, Cell::bilstm);
}

LayerPlan plan_gru(const Recurrent& options, const std::vector<LayerInput>& inputs) {
  return plan_recurrent<torch::nn::GRUImpl, torch::nn::GRUOptions>(options, inputs, Cell::gru);
}

}  // namespace lockstep::nn
