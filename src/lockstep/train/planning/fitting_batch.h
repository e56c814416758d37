// --mini-batch-size auto: the largest that fits in memory.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/device/inventory.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

struct FittingBatch {
  int64_t samples = 0;
  std::string reason;
};

/// What a shard of this network takes while it is computed, beside the weights: bytes, and bytes more for
/// each of its samples.
struct ShardMemory {
  double fixed = 0;
  double each_sample = 0;
};

/// Counted in a forward and backward pass of two sizes of shard. The plan's input, format, device,
/// frozen_layers, pieces and precision are read.
ShardMemory measure_shard_memory(const nn::Network& network, const Plan& plan);

/// The bytes that a process is reckoned to need for a step of `samples` samples, all shards being computed at
/// once on a CPU, so that it fits for any number of workers, and one by one on a GPU.
double step_memory(const Plan& plan, const Options& options, const ShardMemory& shard, int64_t samples);

/// The largest power of two that fits in `budget` bytes and leaves an epoch ten steps. Throws out_of_memory
/// where not even one sample fits.
FittingBatch fitting_batch(const Plan& plan, const Options& options, const ShardMemory& shard, double budget);

/// What a step surely needs on a CPU, bytes for all ranks of this machine: the mini-batch's images, and for
/// the shards that are computed at once what backward reads of their forward pass, the inputs of all layers
/// with weights. Little more than nothing for frozen layers and C++ modules, which it does not look into.
///   ranks_share  the part of all ranks that runs on this machine
double least_step_memory(const Plan& plan, const Options& options, const nn::Network& network,
                         double ranks_share);

/// Throws out_of_memory where that is more than the machine has.
void check_step_memory(const Plan& plan, const Options& options, const nn::Network& network,
                       double ranks_share, const device::Inventory& inventory);

/// What a step may take: a stated share of the memory that is free now, on the plan's device.
struct MemoryBudget {
  double bytes = 0;
  std::string words;
};
MemoryBudget memory_budget(const Plan& plan, const Options& options, const device::Inventory& inventory);

}  // namespace lockstep::train
