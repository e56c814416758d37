#include "lockstep/train/planning/run_memory.h"

#include <memory>

#include "lockstep/device/gpu.h"
#include "lockstep/train/cache/resident_images.h"
#include "lockstep/train/planning/fitting_batch.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {
namespace {

std::map<int64_t, double> budgets_of_gpus(const Plan& plan, double memory_share) {
  std::map<int64_t, double> budgets;
  MachinePlan machine = plan.machine;
  for (const int64_t gpu : plan.machine.devices) {
    machine.gpu = gpu;
    budgets[gpu] = memory_budget(machine, memory_share, {}).bytes;
  }
  return budgets;
}

}  // namespace

RunMemory memory_of_run(const TrainingRequest& request, const Options& options) {
  TrainingRequest alone = request;
  alone.images =
      request.images == nullptr ? std::make_shared<data::ImageShare>() : request.images->without_sets();
  const Prepared prepared = prepare(alone, options, /*dry=*/true);
  const Plan& plan = prepared.plan;
  RunMemory memory;
  if (plan.machine.device == "cpu") {
    for (const auto& [key, bytes] : alone.images->kept_sets())
      (key.empty() ? memory.own : memory.images[key]) += static_cast<double>(bytes);
  } else {
    memory.gpus = budgets_of_gpus(plan, options.memory_share);
    const int64_t total = device::gpu_library().memory(plan.machine.gpu).total;
    memory.own = static_cast<double>(most_resident_bytes(plan, options.resident, total));
  }
  const ShardMemory shard = measure_shard_memory(prepared.network, plan);
  memory.own += step_memory(plan, shard, plan.step.mini_batch_size);
  return memory;
}

}  // namespace lockstep::train
