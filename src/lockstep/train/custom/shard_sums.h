// A step of a custom loop: loss and gradients of this worker's shards, then the exchange with the other
// workers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/shard_tree.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/custom/built_model.h"

namespace lockstep::train {

/// A model's loss on one shard: the sum (not the mean) over its samples or labelled time steps, one number
/// with a graph, as nn::cross_entropy_sum returns it.
using ModelLoss = std::function<at::Tensor(const data::Shard& shard)>;

/// The results of this worker's shards of one mini-batch, until the exchange. A worker without shards has one
/// too.
struct ShardSums {
  BuiltModel model;
  std::shared_ptr<comm::NodeStack>
      gradients;             ///< of the mini-batch's mean loss, one flat vector for each shard
  int64_t shard_count = 0;   ///< over all workers
  int64_t target_count = 0;  ///< data::Batch::target_count
  at::Tensor rows;        ///< double [own shards, values] on the CPU: samples, loss, batch norms' statistics
  double loss_scale = 1;  ///< the factor of the gradients until the exchange
};

/// Calls loss(shard) for each shard of this worker, in training mode, and computes its gradients. The shard's
/// input and target are on the model's device. Random layers draw by (seed, batch.iteration, shard), so the
/// results do not depend on which worker has the shard. Throws invalid_option if `loss` returns no number
/// with a graph, and corrupt_data if the number is NaN or infinite. Afterwards the grad() of the parameters
/// is empty. In fp16-mixed backward starts from the loss times BuiltModel::loss_scale; the loss itself is not
/// scaled.
ShardSums loss_and_gradients(const BuiltModel& model, const data::Batch& batch, const ModelLoss& loss);

/// The results of a whole mini-batch, equal on all ranks.
struct MiniBatchSums {
  double loss = 0;  ///< mean over data::Batch::target_count, for images the number of samples
  /// Of that mean, one for each learnable; later steps do not change them. Empty if skipped.
  std::vector<at::Tensor> gradients;
  int64_t count = 0;                   ///< samples
  std::shared_ptr<const void> memory;  ///< owns the gradients
  bool skipped = false;                ///< fp16-mixed: the gradients were not finite; the same on all ranks
};

/// How the batch norms' statistics of the shards become those of the mini-batch. pooled: as if one worker had
/// computed all samples, with the variance between the shards. average: MATLAB's average of the shards'
/// variances, weighted by samples, without the variance between the shards.
enum class StateAggregation { pooled, average };
constexpr std::array<const char*, 2> enum_names(StateAggregation) { return {"pooled", "average"}; }

/// Adds the shards of all workers in the fixed tree of comm/shard_tree.h, with the same bits for any number
/// of workers, threads or processes, and updates the model's running statistics. Every rank calls it. If all
/// workers have a GPU, gradients are sent from GPU to GPU. In fp16-mixed it does what PyTorch's GradScaler
/// does: it divides the gradients by the scale, so that clipping gets the true ones, and chooses the next
/// scale. If gradients are not finite, the list is empty, and the optimizers of learnables.h change nothing.
/// This is normal in the first steps. Throws corrupt_data if no scale is small enough.
MiniBatchSums exchange(pool::Worker& worker, const ShardSums& sums,
                       StateAggregation state = StateAggregation::pooled);

/// For loops in which every rank has its own mini-batches, from a queue with Share{}. Each rank is weighted
/// by its data::Batch::target_count, and the ranks are added in the tree like shards, so the result depends
/// on the number of ranks. Random layers draw the same numbers on all ranks unless each rank builds its model
/// with another seed (the first weights are rank 0's in any case). Every rank calls it.
MiniBatchSums exchange_ranks(pool::Worker& worker, const ShardSums& sums,
                             StateAggregation state = StateAggregation::pooled);

}  // namespace lockstep::train
