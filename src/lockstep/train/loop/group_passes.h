// How a worker computes its shards of one or several groups of batch norms: in one pass where they go
// together, otherwise in passes that meet at each batch norm.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/share.h"
#include "lockstep/train/step/pass_threads.h"
#include "lockstep/train/step/step_groups.h"
#include "lockstep/train/update/step_update.h"

namespace lockstep::train {

/// Of one worker in one step.
struct GroupPasses {
  StepUpdate& update;
  StepGroups& groups;
  Share thread;  ///< the worker, of those of its process
  int64_t step;  ///< steps done before this one
  double loss_scale;

  struct Runners {
    ShardRunner& own;
    PassThreads& others;
  };

  /// results: of the unit's shards. Returns for how many seconds the worker has waited for others.
  double compute(const Runners& runners, const ShardUnit& unit, const StepWork& work,
                 std::span<ShardResult> results) const;
};

}  // namespace lockstep::train
