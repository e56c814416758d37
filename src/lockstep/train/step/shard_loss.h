// The loss of a batch from the network's logits, and what is kept of it for the report.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// The sum of the samples' cross-entropies. backward() begins with `sum`; `of_each` [shards] are the parts of
/// the shards, without a graph.
struct BatchLoss {
  at::Tensor sum;
  at::Tensor of_each;
};

/// Throws invalid_option if the logits are not [b,classes] for these targets [b], or [b,classes,T] for [b,T].
void check_logits(const at::Tensor& logits, const at::Tensor& target);

/// The logits in float32, or in float64 if they are.
at::Tensor widened(const at::Tensor& logits);

/// The loss of one shard, with mixup if the shard has a second target. `target` is the shard's on the
/// logits' device. smoothing: UpdatePlan::label_smoothing.
BatchLoss loss_of_shard(const at::Tensor& logits, const at::Tensor& target, const data::Shard& shard,
                        double smoothing);

/// The loss of several shards of equal size in one batch, `target` int64 [b]. Each shard's part has the bits
/// that it has alone.
BatchLoss loss_of_several(const at::Tensor& logits, const at::Tensor& target, int64_t shards,
                          double smoothing);

/// double [shards, 2 + values] on the device: loss, number of correct samples, and the batch norms'
/// statistics (BatchNorms::statistics, which may be undefined). The logits have no graph.
at::Tensor unread_of(const at::Tensor& losses, const at::Tensor& logits, const at::Tensor& target,
                     const at::Tensor& statistics);

}  // namespace lockstep::train
