// Batch-norm statistics of a mini-batch that is computed in shards: each shard normalises by its own, the
// running statistics follow those of the whole mini-batch (pooled, with the part between shards), as if one
// worker had seen it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"
#include "lockstep/kernels/shards_together.h"
#include "lockstep/train/step/shared_weights.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Count, mean and sum of squared deviations of every channel of one batch norm, in double.
struct Moments {
  double count = 0;
  std::vector<double> mean;
  std::vector<double> deviation;
};

/// Pools two sets (Chan, Golub, LeVeque 1979, "Updating formulae", eq. 2.1).
Moments pooled(const Moments& left, const Moments& right);

/// The mean of means and of (unbiased) variances, weighted by count: MATLAB's aggregation of states, which
/// has no part between the two.
Moments averaged(const Moments& left, const Moments& right);

/// What a network's batch norms are, but for frozen ones, found once and equal for all instances.
struct BatchNormInfo {
  std::string name;  ///< of the module
  int64_t channels = 0;
  double momentum = 0.1;
  bool cumulative = false;          ///< momentum 1 / batches seen
  int64_t elements_per_sample = 1;  ///< per channel: 1, or height * width
};

/// Runs one forward pass of `instance` (in training mode) on two images to learn what the batch norms see,
/// and to find what cannot be made to repeat. Throws invalid_option naming a buffer that changes in forward
/// and is no batch norm's.
std::vector<BatchNormInfo> probe_batch_norms(const nn::Instance& instance, const nn::NetworkInput& input);

/// One instance's batch norms. In training they run with momentum 1, so that their buffers hold the last
/// batch's own statistics.
class BatchNorms {
 public:
  BatchNorms(const nn::Instance& instance, const std::vector<BatchNormInfo>& info);
  /// The statistics of the forward pass just made, double [values], on the device: a copy, so nothing waits
  /// for the device.
  at::Tensor statistics() const;
  /// Of one of the shards that were computed together.
  at::Tensor statistics(const kernels::ShardsTogether& together, int64_t shard) const;
  /// Copies the masters into this instance's buffers, for validation. The next training pass overwrites them.
  void load(const SharedWeights& weights) const;

 private:
  at::Tensor values_of(const std::function<at::Tensor(const at::Tensor& buffer)>& of_shard) const;

  std::vector<BatchNormInfo> info_;
  nn::Instance instance_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> variances_;
};

/// What statistics() gave, read back to the host, as moments over `samples` images.
std::vector<Moments> moments_from(const std::vector<BatchNormInfo>& info, const double* statistics,
                                  int64_t samples);

/// Moves the masters by the mini-batch's moments: running = (1 - momentum) running + momentum * statistic,
/// the variance unbiased by the count over all workers. `all` has one entry per batch norm.
void apply_moments(SharedWeights& weights, const std::vector<BatchNormInfo>& info,
                   const std::vector<Moments>& all);

}  // namespace lockstep::train
