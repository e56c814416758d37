#include "lockstep/nn/layers/recurrent.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <torch/nn/modules/rnn.h>

#include "lockstep/nn/recurrence.h"

namespace lockstep::nn {
namespace {

/// The part of a mini-batch that must be computed: time steps [begin, begin + count), and the rows in which
/// they are padding.
struct Span {
  int64_t begin = 0;
  int64_t count = 0;
  at::Tensor padding = {};  ///< bool [count,b,1]; undefined without padding
};

/// Time steps that are padding in all rows are omitted.
Span span_of(const TimeSteps& times, int64_t steps, at::Device device) {
  const at::Tensor lengths = times.lengths.contiguous();
  const int64_t rows = lengths.numel();
  const int64_t* length = lengths.const_data_ptr<int64_t>();
  const auto [shortest, longest] = std::minmax_element(length, length + rows);
  Span span{.count = std::max<int64_t>(*longest, 1)};
  if (times.padded_left) span.begin = steps - span.count;
  if (*shortest == span.count) return span;
  at::Tensor padding = at::zeros({span.count, rows, 1}, at::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    padding.select(1, row)
        .narrow(0, times.padded_left ? 0 : length[row], span.count - length[row])
        .fill_(true);
  }
  span.padding = padding.to(device);
  return span;
}

std::vector<CellWeights> weights_of(const torch::nn::Module& module) {
  const std::vector<at::Tensor> all = module.parameters();
  std::vector<CellWeights> layers;
  for (size_t i = 0; i + 3 < all.size(); i += 4)
    layers.push_back({all[i], all[i + 1], all[i + 2], all[i + 3]});
  return layers;
}

enum class Cell { lstm, gru };

/// Output [b,H,T] or [b,H]. `hidden_state` is h, and c of an LSTM, [b,layers,H].
at::Tensor run(const torch::nn::Module& module, Cell cell, OutputMode mode, const at::Tensor& input,
               const TimeSteps& times, std::vector<at::Tensor>& hidden_state) {
  // Sums over hundreds of time steps need the precision of float32, and products of few rows gain nothing
  // from less.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const std::vector<CellWeights> layers = weights_of(module);
  const int64_t rows = input.size(0), steps = input.size(2), hidden = layers.front().hidden.size(1);
  const Span span = span_of(times, steps, input.device());
  at::Tensor values = input.narrow(2, span.begin, span.count)
                          .to(layers.front().input.scalar_type())
                          .permute({2, 0, 1})
                          .contiguous();
  if (hidden_state.empty())
    hidden_state.assign(cell == Cell::lstm ? 2 : 1,
                        at::zeros({rows, static_cast<int64_t>(layers.size()), hidden},
                                  values.options().requires_grad(false)));
  std::vector<at::Tensor> h, c;
  at::Tensor last;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const at::Tensor begin = hidden_state[0].select(1, place).contiguous();
    const Recurrence made = cell == Cell::lstm ? run_lstm(values, span.padding, layers[i], begin,
                                                          hidden_state[1].select(1, place).contiguous())
                                               : run_gru(values, span.padding, layers[i], begin);
    values = made.outputs;
    last = made.h;
    h.push_back(made.h.detach());
    if (cell == Cell::lstm) c.push_back(made.c.detach());
  }
  hidden_state[0] = at::stack(h, 1);
  if (cell == Cell::lstm) hidden_state[1] = at::stack(c, 1);
  if (mode == OutputMode::last) return last;
  const at::Tensor outputs = values.permute({1, 2, 0});
  return span.count == steps ? outputs
                             : at::constant_pad_nd(outputs, {span.begin, steps - span.begin - span.count});
}

template <class Module, class ModuleOptions>
LayerPlan plan_recurrent(const Recurrent& options, const std::vector<LayerInput>& inputs, Cell cell) {
  const LayerInput& input = sequence_input(inputs);
  if (options.hidden == 0)
    throw Misfit{"needs \"hidden\", the size of its hidden state", "add for example \"hidden\": 100"};
  const int64_t channels = input.shape.front(), gates = cell == Cell::lstm ? 4 : 3;
  const bool sequence = options.output == OutputMode::sequence;
  LayerPlan plan{.detail = std::string(sequence ? "every time step" : "last time step") +
                           (options.layers > 1 ? ", " + std::to_string(options.layers) + " layers" : "")};
  plan.output = sequence ? Shape{options.hidden, input.shape.back()} : Shape{options.hidden};
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string suffix = "_l" + std::to_string(i);
    plan.learnables.push_back(
        {"weight_ih" + suffix, {gates * options.hidden, i == 0 ? channels : options.hidden}});
    plan.learnables.push_back({"weight_hh" + suffix, {gates * options.hidden, options.hidden}});
    plan.learnables.push_back({"bias_ih" + suffix, {gates * options.hidden}});
    plan.learnables.push_back({"bias_hh" + suffix, {gates * options.hidden}});
  }
  plan.hidden_state.push_back({"h", {options.layers, options.hidden}});
  if (cell == Cell::lstm) plan.hidden_state.push_back({"c", {options.layers, options.hidden}});
  plan.build = [options, channels, cell](bool) {
    auto module =
        std::make_shared<Module>(ModuleOptions(channels, options.hidden).num_layers(options.layers));
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

LayerPlan plan_gru(const Recurrent& options, const std::vector<LayerInput>& inputs) {
  return plan_recurrent<torch::nn::GRUImpl, torch::nn::GRUOptions>(options, inputs, Cell::gru);
}

}  // namespace lockstep::nn
