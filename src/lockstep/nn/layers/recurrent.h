// Layers with memory, that go along the time steps of sequences.
#pragma once

#include <array>

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// What a recurrent layer gives: its output at every time step [hidden,T], or after the last one that is no
/// padding [hidden].
enum class OutputMode { sequence, last };
constexpr std::array<const char*, 2> enum_names(OutputMode) { return {"sequence", "last"}; }

struct Recurrent {
  int64_t hidden = 0;
  int64_t layers = 1;
  OutputMode output = OutputMode::last;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("hidden", self.hidden, "numbers in the state, and in the output", between(1, 1 << 20));
    field("layers", self.layers, "recurrent layers on top of one another", between(1, 64));
    field("output", self.output, "at every time step, or after the last one");
  };
};

/// PyTorch's torch.nn.LSTM and torch.nn.GRU of one direction, without dropout: their arithmetic, names
/// (weight_ih_l0 ...) and first weights. A padded time step changes no state and gives zeros. In bf16-mixed
/// they run in float32. State hidden_state between mini-batches: "h" [layers,hidden], and "c" of an LSTM.
LayerPlan plan_lstm(const Recurrent& options, const std::vector<LayerInput>& inputs);
LayerPlan plan_gru(const Recurrent& options, const std::vector<LayerInput>& inputs);

}  // namespace lockstep::nn
