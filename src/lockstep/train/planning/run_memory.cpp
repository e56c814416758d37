#include "lockstep/train/planning/run_memory.h"

#include "lockstep/train/planning/fitting_batch.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

double memory_of_run(const TrainingRequest& request, const Options& options) {
  const Prepared prepared = prepare(request, options, /*dry=*/true);
  const ShardMemory shard = measure_shard_memory(prepared.network, prepared.plan);
  return step_memory(prepared.plan, shard, prepared.plan.step.mini_batch_size);
}

}  // namespace lockstep::train
