// LSTM and GRU along time, step by step with products of one size [b,...]: the outputs at a time step have
// the same bits however many time steps come before or after in the same call, so a stream that is cut into
// pieces gives what the whole gives. LSTM: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et
// al. 2000; GRU: Cho et al. 2014; both as PyTorch computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// One recurrent layer's tensors, with 4 (LSTM: input, forget, cell, output) or 3 (GRU: reset, update, new)
/// gates.
struct CellWeights {
  at::Tensor input;        ///< weight_ih [gates * H, C]
  at::Tensor hidden;       ///< weight_hh [gates * H, H]
  at::Tensor input_bias;   ///< bias_ih [gates * H]
  at::Tensor hidden_bias;  ///< bias_hh [gates * H]
};

/// What a layer made of a mini-batch.
struct Recurrence {
  at::Tensor outputs;  ///< [T,b,H], zeros at padded time steps
  at::Tensor h;        ///< [b,H] after each sequence's last time step
  at::Tensor c;        ///< the same of an LSTM's cell; no gradient goes back from it
};

/// Values [T,b,C] in the weights' type; `padding` bool [T,b,1] is true where a time step is padding, or
/// undefined. State [b,H] without gradients.
Recurrence run_lstm(const at::Tensor& values, const at::Tensor& padding, const CellWeights& weights,
                    const at::Tensor& h, const at::Tensor& c);
Recurrence run_gru(const at::Tensor& values, const at::Tensor& padding, const CellWeights& weights,
                   const at::Tensor& h);

/// A linear layer at each time step: [b,C,T] -> [b,features,T]. The bits at a step do not depend on T either.
/// `bias` may be undefined.
at::Tensor linear_of_steps(const at::Tensor& values, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace lockstep::nn
