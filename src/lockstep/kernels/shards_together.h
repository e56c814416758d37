// Several shards of a mini-batch computed as one batch, so that a layer reads its weights once for all of
// them. Sums over samples (gradients of weights, statistics of batch norms) are made shard by shard and added
// in the tree over shards; everything else is computed sample by sample. So the bits are the same as for one
// shard after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/norm_groups.h"

namespace lockstep::kernels {

/// While it lives, the batches of all layers on this thread, forward and backward, consist of `count` shards
/// of equal size, one after the other.
class ShardsTogether {
 public:
  /// Batch norms normalise over each shard.
  explicit ShardsTogether(int64_t count);
  /// Batch norms normalise over these groups.
  ShardsTogether(int64_t count, NormGroups groups);
  ~ShardsTogether();
  ShardsTogether(const ShardsTogether&) = delete;
  ShardsTogether& operator=(const ShardsTogether&) = delete;

  /// The number of shards by the innermost object of this thread; 1 if there is none.
  static int64_t count();
  /// The groups by the innermost object of this thread; one of one shard if there is none.
  static const NormGroups& groups();
  /// The number of samples in each shard of a batch of `samples` samples. A layer that decides by the size of
  /// its batch must use this size.
  static int64_t samples_of_each(int64_t samples) { return samples / count(); }

  /// Called by a layer before an operator whose bits may depend on the size of the batch. Throws internal if
  /// there are several shards.
  static void mix();
  /// Whether a layer called mix().
  bool mixed() const { return mixed_; }

  /// Called after each shard, in order: keeps the buffers of a batch norm with momentum 1. Does nothing
  /// unless there are several shards.
  static void keep_statistics(const at::Tensor& running_mean, const at::Tensor& running_variance);
  /// float32 [count,channels]: the means, or variances, of the batch norm with this buffer.
  const at::Tensor& statistics(const at::Tensor& buffer) const {
    return statistics_.at(buffer.const_data_ptr()).rows;
  }

 private:
  struct Statistics {
    at::Tensor rows;
    int64_t kept = 0;
  };
  void keep(const at::Tensor& buffer);

  int64_t count_;
  NormGroups groups_;
  bool mixed_ = false;
  std::map<const void*, Statistics> statistics_;  // by the buffer's memory
  ShardsTogether* outer_;
};

/// Runs an operator whose bits may depend on the size of the batch on each shard of the batch separately.
at::Tensor shard_by_shard(const at::Tensor& batch,
                          const std::function<at::Tensor(const at::Tensor& shard)>& run);

/// Gradients of a layer's parameters by one shard, or by several with +=. An undefined tensor stays
/// undefined.
struct ParameterGradients {
  at::Tensor weight;
  at::Tensor bias;
  ParameterGradients& operator+=(const ParameterGradients& other);
};

}  // namespace lockstep::kernels
