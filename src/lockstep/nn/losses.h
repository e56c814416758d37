// Losses and softmax, for custom loops. A network returns logits, and cross_entropy takes them before any
// softmax.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

/// The class number of samples or time steps without a class, such as padding: they add nothing to a loss.
inline constexpr int64_t kNoClass = -1;

/// Probabilities of logits [b,classes], over the classes.
at::Tensor softmax(const at::Tensor& logits);

/// The sum over the samples of -log(probability of the target), a number with its graph. Logits are
/// [b,classes]; 16-bit types are computed in 32 bits. Targets are class numbers, int64 [b], or probabilities
/// [b,classes], such as one-hot rows. For logits [b,classes,T], targets are a class number per time step,
/// int64 [b,T]. kNoClass adds nothing. Throws invalid_option if the shapes do not fit.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& target);
/// The mean over the samples: divided by b for any targets.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target);

/// The sum over the samples of half the squared error, like MATLAB's mse: sum((output - target)^2) / 2. Both
/// tensors have the same shape [b,...].
at::Tensor mse_sum(const at::Tensor& output, const at::Tensor& target);
/// The mean over the samples.
at::Tensor mse(const at::Tensor& output, const at::Tensor& target);

}  // namespace lockstep::nn
