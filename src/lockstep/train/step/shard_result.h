// What a shard gives beside its gradients, and how the results of a step come together.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/step/batch_norm.h"

namespace lockstep::train {

struct PieceCounts {
  int64_t samples = 0;
  int64_t targets = 0;  ///< samples with a label, or labelled time steps
};

/// Sums over a shard, so that the results of shards can be added. A device works on while the host goes
/// ahead, so reduce_results() reads the values back, once for all shards of a step. Until then loss, correct
/// and moments are empty.
struct ShardResult {
  double loss = 0;  ///< sum of the samples' losses
  int64_t correct = 0;
  int64_t count = 0;    ///< samples
  int64_t targets = 0;  ///< number of terms in loss and correct: samples with a label, or labelled time steps
  Moments moments = {};  ///< of the batch norms; in validation without values
  double forward_seconds = 0;
  double backward_seconds = 0;                  ///< on a GPU: until the work is queued, not until it is done
  std::vector<at::Tensor> unread = {};          ///< of each piece, on the device: loss, correct, statistics
  std::vector<PieceCounts> unread_counts = {};  ///< of each piece
  std::vector<at::Tensor> hidden_state = {};    ///< recurrent state after the shard, [b,...] each
};

/// The number of samples with a label, or of labelled time steps.
int64_t target_count(const data::Shard& shard);

/// Fills in the results [0, count), of which each rank has computed some: reads back what is unread, all in
/// one copy, and exchanges it between the ranks. Afterwards all ranks have the same numbers. Every rank calls
/// it, on one thread.
///   pieces  of an accumulation, at most
///   norms   the batch norms whose statistics are in `unread`
///   memory  what a call of before has left there is written again, because the pages of new memory take time
void reduce_results(std::vector<ShardResult>& results, int64_t count, int64_t pieces,
                    const std::vector<BatchNormInfo>& norms, comm::Communicator& comm,
                    at::Tensor* memory = nullptr);

/// The sum of the results [0, count), added in the tree of the shards: loss, correct, count, targets and
/// pooled moments of these batch norms.
ShardResult folded(const std::vector<ShardResult>& results, int64_t count,
                   const std::vector<BatchNormInfo>& norms);

}  // namespace lockstep::train
