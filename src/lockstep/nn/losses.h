// Losses and softmax, for loops of one's own. A network gives logits, so cross_entropy takes them as they
// are, before any softmax.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

/// The class number of what has none, as padding: it adds nothing to a loss.
inline constexpr int64_t kNoClass = -1;

/// Probabilities of logits [b,classes], over the classes.
at::Tensor softmax(const at::Tensor& logits);

/// The sum over the samples of -log(probability of the target), a number with its graph. Logits [b,classes],
/// of 16 bits too: the loss is computed in 32 at least. Targets are class numbers, int64 [b], or
/// probabilities [b,classes], as one-hot rows; or of logits [b,classes,T] a class number for each time step,
/// int64 [b,T]. kNoClass adds nothing. Throws invalid_option when the shapes do not fit.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& target);
/// The mean over the samples, b of them whatever their targets.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target);

/// The sum over the samples of half the squared error, as MATLAB's mse has it: sum((output - target)^2) / 2.
/// Tensors of one shape [b,...].
at::Tensor mse_sum(const at::Tensor& output, const at::Tensor& target);
/// The mean over the samples.
at::Tensor mse(const at::Tensor& output, const at::Tensor& target);

}  // namespace lockstep::nn
