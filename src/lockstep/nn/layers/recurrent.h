// Layers with memory, for sequences.
#pragma once

#include <array>

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// The output of a recurrent layer: at every time step [hidden,T], or after the last time step without
/// padding [hidden].
enum class OutputMode { sequence, last };
constexpr std::array<const char*, 2> enum_names(OutputMode) { return {"sequence", "last"}; }

struct Recurrent {
  int64_t hidden = 0;
  int64_t layers = 1;
  OutputMode output = OutputMode::last;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("hidden", self.hidden, "size of the hidden state, and of the output", between(1, 1 << 20));
    field("layers", self.layers, "number of stacked recurrent layers", between(1, 64));
    field("output", self.output, "sequence: the output at every time step; last: only after the last one");
  };
};

/// PyTorch's torch.nn.LSTM and torch.nn.GRU without dropout: the same arithmetic, names
/// (weight_ih_l0 ...) and initial weights. A padded time step does not change the state and returns zeros.
/// With bf16-mixed they run in float32. The state hidden_state between mini-batches is "h" [layers,hidden],
/// and also "c" for an LSTM.
LayerPlan plan_lstm(const Recurrent& options, const std::vector<LayerInput>& inputs);
LayerPlan plan_gru(const Recurrent& options, const std::vector<LayerInput>& inputs);
/// torch.nn.LSTM with two directions: [C,T] to [2 hidden,T] or [2 hidden], the forward direction first. The
/// last output of the reverse direction is that of the first time step. It carries no state.
LayerPlan plan_bilstm(const Recurrent& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
