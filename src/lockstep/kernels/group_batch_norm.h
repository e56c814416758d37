// Batch norm over the group of a shard (norm_groups.h) with LibTorch's operators: for inputs that
// fused_batch_norm does not take, such as double precision, features without height and width, and images
// stored channels first. Its arithmetic is in double precision.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/fused_batch_norm.h"

namespace lockstep::kernels {

/// at::batch_norm in training over the groups of ShardsTogether. `state` may lack weight, bias and running
/// statistics, and have any floating-point type. Nothing if batch norms normalise over each shard alone, or
/// if the input's first dimension does not count the batch's shards (an instance norm).
std::optional<at::Tensor> group_batch_norm(const at::Tensor& input, const BatchNormState& state);

}  // namespace lockstep::kernels
