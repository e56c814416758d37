// Batch-norm statistics of a mini-batch that is computed in shards. Each shard is normalised by its own
// statistics. The running statistics follow those of the whole mini-batch, as if one worker had computed it:
// they are pooled over the shards, with the differences between the shards.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"
#include "lockstep/kernels/shards_together.h"
#include "lockstep/train/options/choices.h"
#include "lockstep/train/step/shared_weights.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// One batch norm of a network. Equal for all instances of the network.
struct BatchNormInfo {
  std::string name{};  ///< of the module
  int64_t channels = 0;
  double momentum = 0.1;
  bool cumulative = false;          ///< momentum 1 / batches seen
  bool starts_as_mean = false;      ///< momentum at least 1 / batches seen (BatchNormStart::mean)
  int64_t elements_per_sample = 1;  ///< per channel: 1, or height * width
};

/// Of all batch norms of a network, over some samples, in double.
struct Moments {
  int64_t samples = 0;
  /// Of each batch norm the mean of every channel, then the sum of squared deviations of every channel. Empty
  /// without samples.
  std::vector<double> values = {};
};

/// Pools two sets (Chan, Golub, LeVeque 1979, "Updating formulae", eq. 2.1).
Moments pooled(const std::vector<BatchNormInfo>& norms, Moments left, Moments right);

/// The mean of means and of (unbiased) variances, weighted by count, as MATLAB aggregates the states of
/// workers. It does not include the differences between the two.
Moments averaged(const std::vector<BatchNormInfo>& norms, Moments left, Moments right);

/// Finds the batch norms that are not frozen, by one forward pass of `instance` (in training mode) on two
/// images. Throws invalid_option for a buffer that changes in the forward pass and belongs to no batch norm,
/// because its values would not repeat.
std::vector<BatchNormInfo> probe_batch_norms(const nn::Instance& instance, const nn::NetworkInput& input);

/// The number of batch norms that are not frozen.
int64_t count_batch_norms(const nn::Instance& instance);
/// The same batch norms, whose running statistics begin as planned.
std::vector<BatchNormInfo> with_start(std::vector<BatchNormInfo> norms, BatchNormStart start);

/// The batch norms of one instance. In training they run with momentum 1, so that their buffers hold the
/// statistics of the last batch.
class BatchNorms {
 public:
  BatchNorms(const nn::Instance& instance, const std::vector<BatchNormInfo>& info);
  /// The statistics of the last forward pass, double [1, values]. The tensor is a copy on the device, so the
  /// host does not wait.
  at::Tensor statistics() const;
  /// The statistics of each of several shards that were computed together, double [shards, values].
  at::Tensor statistics(const kernels::ShardsTogether& together) const;
  /// Lets the next forward pass write its statistics to memory of its own, because the last one may still be
  /// under way on another stream of the device.
  void use_other_memory();
  /// Copies the masters into this instance's buffers, for validation. The next training pass overwrites them.
  void load(const SharedWeights& weights) const;

 private:
  at::Tensor values_of(const std::function<at::Tensor(const at::Tensor& buffer)>& of_buffer) const;

  std::vector<BatchNormInfo> info_;
  nn::Instance instance_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> variances_;
  std::vector<at::Tensor> batches_;  // counted, but not used
};

/// A row of statistics(), read back to the host, as moments over `samples` images.
Moments moments_from(const std::vector<BatchNormInfo>& norms, const double* statistics, int64_t samples);

/// Moves the masters by the mini-batch's moments: running = (1 - momentum) running + momentum * statistic.
/// The variance is unbiased by the count over all workers.
void apply_moments(SharedWeights& weights, const std::vector<BatchNormInfo>& norms, const Moments& moments);

}  // namespace lockstep::train
