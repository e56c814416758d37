// Convolutions of the engine over several shards. Its bits may depend on the size of the batch, so it is
// called once for each shard.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// The other arguments of at::conv2d.
struct ConvolutionSteps {
  c10::SymIntArrayRef stride;
  c10::SymIntArrayRef padding;
  c10::SymIntArrayRef dilation;
  const c10::SymInt& groups;
};

/// at::conv2d in `type` of each shard of the batch (ShardsTogether), whose gradients by weight and bias are
/// added in the tree over the shards. The bits are those of at::conv2d for one shard after the other.
at::Tensor engine_convolution(const at::Tensor& input, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias, const ConvolutionSteps& steps,
                              at::ScalarType type);

}  // namespace lockstep::kernels
