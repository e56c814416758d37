// A step of a loop of one's own: loss and gradients of this worker's shards, then the exchange with the other
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

/// A model's loss on one shard: the sum over its samples, or its labelled time steps (not the mean), a number
/// with its graph, as nn::cross_entropy_sum gives it.
using ModelLoss = std::function<at::Tensor(const data::Shard& shard)>;

/// What this worker's shards of one mini-batch gave, until the exchange. A worker without shards has one too.
struct ShardSums {
  BuiltModel model;
  std::shared_ptr<comm::NodeStack>
      gradients;             ///< of the mini-batch's mean loss, one flat vector for each shard
  int64_t shard_count = 0;   ///< over all workers
  int64_t target_count = 0;  ///< data::Batch::target_count
  at::Tensor rows;        ///< double [own shards, values] on the CPU: samples, loss, batch norms' statistics
  double loss_scale = 1;  ///< by which the gradients are too large until the exchange
};

/// Calls loss(shard) for each shard of this worker, in training mode, and computes its gradients; the shard's
/// input and target are then on the model's device. Random layers draw by (seed, batch.iteration, shard), so
/// what comes out is the same whichever worker has the shard. Throws invalid_option when loss gives no number
/// with a graph, corrupt_data when that is NaN or infinite. The parameters' own grad() is empty afterwards.
/// In fp16-mixed backward starts from the loss times BuiltModel::loss_scale; the loss itself is not scaled,
/// nor what its function computes.
ShardSums loss_and_gradients(const BuiltModel& model, const data::Batch& batch, const ModelLoss& loss);

/// Of a whole mini-batch, equal on all ranks.
struct MiniBatchSums {
  double loss = 0;  ///< mean over data::Batch::target_count, which is the samples of images
  /// Of that mean, one for each learnable; later steps do not change them. None where skipped.
  std::vector<at::Tensor> gradients;
  int64_t count = 0;                   ///< samples
  std::shared_ptr<const void> memory;  ///< that the gradients lie in
  bool skipped = false;                ///< fp16-mixed: the gradients were not finite; the same on all ranks
};

/// How the statistics that batch norms saw on each shard become those of the mini-batch: pooled, as if one
/// worker had seen all (with the part of the variance that lies between shards), or MATLAB's average of the
/// shards' variances, weighted by samples, which loses that part.
enum class StateAggregation { pooled, average };
constexpr std::array<const char*, 2> enum_names(StateAggregation) { return {"pooled", "average"}; }

/// Adds the shards of all workers in the fixed tree of comm/shard_tree.h: the same bits for any number of
/// workers, threads or processes. The model's running statistics follow. Every rank calls it. Where all
/// workers have a GPU, gradients go from GPU to GPU. In fp16-mixed this is PyTorch's GradScaler: it takes the
/// scale out of the gradients, so that clipping sees true ones, and chooses the next scale. Gradients that
/// are not finite are not given: the list is empty, and the optimizers of learnables.h then change nothing.
/// Such steps are usual among the first. Throws corrupt_data where no scale helps.
MiniBatchSums exchange(pool::Worker& worker, const ShardSums& sums,
                       StateAggregation state = StateAggregation::pooled);

/// For loops in which every rank has mini-batches of its own, from a queue with Share{}: each rank's part
/// counts by its data::Batch::target_count, and ranks are added in the tree as shards are. What comes out
/// depends on the number of ranks. Random layers draw alike on all ranks unless each builds its model with a
/// seed of its own (the first weights are rank 0's all the same). Every rank calls it.
MiniBatchSums exchange_ranks(pool::Worker& worker, const ShardSums& sums,
                             StateAggregation state = StateAggregation::pooled);

}  // namespace lockstep::train
