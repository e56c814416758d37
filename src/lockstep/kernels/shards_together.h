// Several shards of a mini-batch computed as one batch: a layer then reads its weights once for all of them.
// What goes over samples, gradients of weights and statistics of batch norms, is made shard by shard and
// added in the tree over shards; all else is done sample by sample. So the bits are those of one shard after
// the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"

namespace lockstep::kernels {

/// While it lives, batches that layers take on this thread, forward and backward, are so many shards of equal
/// size, one after the other.
class ShardsTogether {
 public:
  explicit ShardsTogether(int64_t count);
  ~ShardsTogether();
  ShardsTogether(const ShardsTogether&) = delete;
  ShardsTogether& operator=(const ShardsTogether&) = delete;

  /// Of this thread's innermost; 1 without one.
  static int64_t count();
  /// The samples of one shard of a batch of so many. What a layer decides by the size of its batch it decides
  /// by this.
  static int64_t samples_of_each(int64_t samples) { return samples / count(); }

  /// Says a layer that is about to run an operator whose bits may depend on the size of the batch. Throws
  /// internal where there are several shards.
  static void mix();
  /// Whether a layer said so.
  bool mixed() const { return mixed_; }

  /// What a batch norm with momentum 1 left in its buffers, after each shard in order; without several shards
  /// nothing is kept.
  static void keep_statistics(const at::Tensor& running_mean, const at::Tensor& running_variance);
  /// float32 [count,channels] of the batch norm with this buffer: means, or variances.
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
  bool mixed_ = false;
  std::map<const void*, Statistics> statistics_;  // by the buffer's memory
  ShardsTogether* outer_;
};

/// Runs an operator whose bits may depend on the size of the batch, on one shard of the batch after the
/// other.
at::Tensor shard_by_shard(const at::Tensor& batch,
                          const std::function<at::Tensor(const at::Tensor& shard)>& run);

/// Gradients of a layer's parameters by one shard, or by several with +=. A tensor that is undefined stays
/// so.
struct ParameterGradients {
  at::Tensor weight;
  at::Tensor bias;
  ParameterGradients& operator+=(const ParameterGradients& other);
};

}  // namespace lockstep::kernels
