// LSTM and GRU, computed time step by time step with products of the fixed size [b,...]. The outputs at a
// time step have the same bits for any number of time steps before or after it in the same call, so a stream
// cut into pieces gives the same outputs as the whole stream. LSTM: Hochreiter and Schmidhuber 1997, with the
// forget gate of Gers et al. 2000; GRU: Cho et al. 2014; both as in PyTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// The tensors of one recurrent layer, with 4 gates (LSTM: input, forget, cell, output) or 3 gates (GRU:
/// reset, update, new).
struct CellWeights {
  at::Tensor input;        ///< weight_ih [gates * H, C]
  at::Tensor hidden;       ///< weight_hh [gates * H, H]
  at::Tensor input_bias;   ///< bias_ih [gates * H]
  at::Tensor hidden_bias;  ///< bias_hh [gates * H]
};

/// The result of a layer for a mini-batch.
struct Recurrence {
  at::Tensor outputs;  ///< [T,b,H], zeros at padded time steps
  at::Tensor h;        ///< [b,H] after each sequence's last time step
  at::Tensor c;        ///< the same for an LSTM's cell; gradients do not flow back from it
};

/// Values are [T,b,C] in the weights' type. `padding`, bool [T,b,1], is true where a time step is padding, or
/// undefined. State is [b,H] without gradients.
Recurrence run_lstm(const at::Tensor& values, const at::Tensor& padding, const CellWeights& weights,
                    const at::Tensor& h, const at::Tensor& c);
Recurrence run_gru(const at::Tensor& values, const at::Tensor& padding, const CellWeights& weights,
                   const at::Tensor& h);

/// A linear layer at each time step: [b,C,T] -> [b,features,T]. The bits at a time step do not depend on T.
/// `bias` may be undefined.
at::Tensor linear_of_steps(const at::Tensor& values, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace lockstep::nn
