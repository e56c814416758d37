// Which samples a batch norm normalises together: the shards of a group, a node of the tree over shards. Sums
// over a group are made shard by shard and added in the tree, so they are the same wherever its shards are
// computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"

namespace lockstep::kernels {

/// Moments of one batch norm: the number of values in a channel, then the mean of each channel, then the sum
/// of its squared deviations. Gradients: the number of values, then two sums for each channel.
using NormSums = std::vector<double>;

/// What a batch norm needs of the shards of its group that other passes compute.
class NormExchange {
 public:
  using Add = void (*)(NormSums& left, const NormSums& right);

  virtual ~NormExchange() = default;
  /// Gives the sums over the shards of this pass, which are a node of the tree, and returns those over the
  /// group. All passes of a group call it at the same layers in the same order. Throws cancelled if another
  /// pass has failed or was given up.
  virtual NormSums fold(NormSums own, Add add) = 0;
};

/// The groups of a batch.
struct NormGroups {
  std::vector<Range> shards;       ///< of each group, consecutive, all shards of the batch
  NormExchange* others = nullptr;  ///< not null: the batch is a part of its only group

  /// Whether a batch norm does not normalise over each shard alone.
  bool reach_beyond_shards() const {
    return others != nullptr || std::ranges::any_of(shards, [](Range range) { return range.count() > 1; });
  }
};

/// Pools two sets of moments (Chan, Golub, LeVeque 1979, "Updating formulae", eq. 2.1).
void add_moments(NormSums& left, const NormSums& right);
/// Adds each number.
void add_sums(NormSums& left, const NormSums& right);

}  // namespace lockstep::kernels
