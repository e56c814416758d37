#include "lockstep/train/planning/this_machine.h"

#include <algorithm>
#include <limits>

#include "lockstep/device/isa.h"
#include "lockstep/train/options/on_worker.h"

namespace lockstep::train {

int64_t ThisMachine::share_of_memory(double memory_share) const {
  return static_cast<int64_t>(static_cast<double>(inventory.memory_bytes) * memory_share /
                              static_cast<double>(ranks_here));
}

int64_t ThisMachine::rank_count(const std::vector<int64_t>& gpus) const {
  return std::max(ranks.count, static_cast<int64_t>(gpus.size()));
}

Placement ThisMachine::place_any_shards(const Options& options) const {
  return resolve_placement(options, std::numeric_limits<int64_t>::max(), inventory, ranks);
}

ThisMachine this_machine(const TrainingRequest& request, const Options& options) {
  ThisMachine machine{.inventory = machine_here(options), .ranks = {}, .ranks_here = request.ranks_here};
  if (request.comm != nullptr)
    machine.ranks = {true,
                     request.comm->size(),
                     request.comm->way(),
                     request.rank_here,
                     request.gpu_link != nullptr,
                     request.needs_gpus};
  return machine;
}

void place_on(MachinePlan& plan, const Placement& placement, const device::JpegDecoder* decoder) {
  plan.device = placement.device;
  plan.devices = placement.devices;
  plan.gpu = placement.gpu;
  plan.workers = placement.workers;
  plan.cores = placement.cores;
  plan.fingerprint = device::arithmetic_fingerprint(placement.devices);
  if (decoder != nullptr) plan.fingerprint += "; jpeg " + decoder->fingerprint();
}

}  // namespace lockstep::train
