// The groups of shards over which batch norms normalise (--batch-norm-group), and where they are computed.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// A mini-batch as batch norms see it.
struct NormBatch {
  int64_t samples = 0;
  int64_t shards = 0;         ///< that it has (used_shards)
  int64_t group_samples = 0;  ///< of a group at most; 0: each shard is one
};

/// The groups of a mini-batch, in order: the largest nodes of the tree of at most `group_samples` samples, at
/// least one shard.
std::vector<Range> norm_groups(const NormBatch& batch);

/// A group whose shards have several workers. It is computed when all of them are at it.
struct SpanningGroup {
  Range shards;
  bool spans_ranks = false;
  int64_t turn =
      0;  ///< workers compute their spanning groups in this order, so that none waits for another
          ///< group; groups of one turn have no worker in common, and those that span ranks no rank
};

/// The groups that no worker has completely, if the shards are dealt so. Groups that span ranks have turn 0
/// or 1.
std::vector<SpanningGroup> spanning_groups(const std::vector<Range>& groups, int64_t shards,
                                           const Deal& deal);

/// Whether some mini-batch of a run has a group that spans ranks. Gradients are then not exchanged during
/// backward.
bool groups_span_ranks(const Plan& plan, int64_t ranks);

}  // namespace lockstep::train
