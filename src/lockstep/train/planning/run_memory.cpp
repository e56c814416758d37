#include "lockstep/train/planning/run_memory.h"

#include <algorithm>

#include "lockstep/train/cache/resident_images.h"
#include "lockstep/train/planning/fitting_batch.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

RunMemory memory_of_run(const TrainingRequest& request, const Options& options) {
  const auto kept = [&] { return request.images == nullptr ? 0 : request.images->kept_bytes(); };
  const int64_t before = kept();
  const Prepared prepared = prepare(request, options, /*dry=*/true);
  RunMemory memory{.images = static_cast<double>(std::max<int64_t>(0, kept() - before))};
  const Plan& plan = prepared.plan;
  if (plan.machine.device != "cpu") {
    memory.gpu = plan.machine.gpu;
    memory.gpu_budget = memory_budget(plan.machine, options.memory_share, {}).bytes;
    if (plan.machine.resident) memory.own = static_cast<double>(resident_bytes(plan));
  }
  const ShardMemory shard = measure_shard_memory(prepared.network, plan);
  memory.own += step_memory(plan, shard, plan.step.mini_batch_size);
  return memory;
}

}  // namespace lockstep::train
