// --mini-batch-size auto: the largest mini-batch that fits in memory.
//
// In the plans that these functions take, step.shards may be 0: then default_shards (placement.h) decides.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/device/inventory.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

struct FittingBatch {
  int64_t samples = 0;
  std::string reason;
};

/// The memory that a shard of a network takes while it is computed, beside the weights: bytes, and bytes more
/// for each of its samples.
struct ShardMemory {
  double fixed = 0;
  double each_sample = 0;
};

/// Measured in forward and backward passes of two sizes of shard. The plan's input, format, device,
/// frozen_layers, pieces and precision are read.
ShardMemory measure_shard_memory(const nn::Network& network, const Plan& plan);

/// The estimated memory of a process for a step of `samples` samples, in bytes. On a CPU all shards count at
/// once, so the result is enough for any number of workers; on a GPU one shard at a time.
double step_memory(const Plan& plan, const ShardMemory& shard, int64_t samples);

/// The largest power of two that fits in `budget` bytes and leaves at least ten steps in an epoch. Throws
/// out_of_memory if not even one sample fits.
FittingBatch fitting_batch(const Plan& plan, const ShardMemory& shard, double budget);

/// A lower bound for the memory of a step on a CPU, in bytes for all ranks of this machine: the images of the
/// mini-batch and, for the shards that are computed at once, the inputs of all layers with weights, which
/// backward reads. Frozen layers and C++ modules are not examined and count as nothing.
///   ranks_share  the part of all ranks that runs on this machine
double least_step_memory(const Plan& plan, const nn::Network& network, double ranks_share);

/// Throws out_of_memory if that is more than the machine has.
void check_step_memory(const Plan& plan, const nn::Network& network, double ranks_share,
                       const device::Inventory& inventory);

/// The memory that a step may take: a share of the memory that is free now on the planned device.
struct MemoryBudget {
  double bytes = 0;
  std::string words;
};
MemoryBudget memory_budget(const MachinePlan& machine, double memory_share,
                           const device::Inventory& inventory);

}  // namespace lockstep::train
