// How many shards each worker of a run gets first. The weights do not depend on it, only the time of a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// What the choice depends on beside the plan. Equal on all ranks.
struct DealFacts {
  int64_t ranks = 1;
  bool one_machine = true;  ///< has all ranks
  double work = 0;          ///< forward_work() of the network; 0: not known
};

struct ShardDeal {
  std::vector<int64_t> loads = {};  ///< MachinePlan::rank_loads; empty: equal parts
  std::string value = {};           ///< for the plan's line `deal`; empty: equal parts
  std::string reason = {};
};

/// Equal parts, or parts of whole nodes of the tree over shards where a step is then shorter by this model: a
/// step ends with its slowest worker. Workers that share a group of batch norm compute it at the same time,
/// each in the time of the largest part, and meet at each batch norm. Then all nodes are added, and travel
/// between machines. At least 88 % of the workers' time is for samples, unless equal parts have less.
ShardDeal choose_deal(const Plan& plan, const DealFacts& facts);

}  // namespace lockstep::train
