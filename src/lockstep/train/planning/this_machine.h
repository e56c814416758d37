// The machine on which a run is planned, and the ranks that train together.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/device/inventory.h"
#include "lockstep/device/jpeg_decoder.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

struct ThisMachine {
  device::Inventory inventory;
  Ranks ranks;
  int64_t ranks_here = 1;  ///< number of ranks on this machine; they share its memory

  /// The bytes of memory that this process may use for images and features: its part of --memory-share.
  int64_t share_of_memory(double memory_share) const;

  /// The number of ranks of a run on these GPUs of this process, each of which is a rank.
  int64_t rank_count(const std::vector<int64_t>& gpus) const;

  /// resolve_placement while the number of shards is not known.
  Placement place_any_shards(const Options& options) const;
};

/// What a placement decides of the plan; the rest of `plan` is kept.
///   decoder  of --decode gpu, or null
void place_on(MachinePlan& plan, const Placement& placement, const device::JpegDecoder* decoder);

/// The machine as machine_here (on_worker.h) returns it. Throws as it does.
ThisMachine this_machine(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
