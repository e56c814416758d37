// The size of a mini-batch, and the shards that it is cut into.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/train/options/options.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/planning/resident_choice.h"
#include "lockstep/train/planning/this_machine.h"

namespace lockstep::train {

struct MiniBatchChoice {
  int64_t size = 0;  ///< as StepPlan::mini_batch_size
  int64_t shards = 0;
  int64_t batch_norm_group = 0;  ///< as StepPlan::batch_norm_group
  int64_t sampler_replicas = 0;  ///< as StepPlan::sampler_replicas
  double rate_factor = 1;        ///< multiplies the learning rate
  std::string reason = {};       ///< for the plan; may be empty
};

/// Resolves --mini-batch-size, --shards, --batch-norm-group, --scale-with-workers and --sample-order. The
/// size of a stream's mini-batches and the slots of sequences in pieces are already in the plan.
///   prepared  its network, prototype, and all of its plan but length, record and machine (of which
///             read_ahead is read); a module is tried once more, with the size of its shards
///             (keeps_module_pass)
///   resident  reserves memory on a GPU for resident images
/// Throws invalid_option for options that cannot be combined, and out_of_memory if --mini-batch-size auto
/// finds none that fits.
MiniBatchChoice choose_mini_batch(Prepared& prepared, const Options& options, const ThisMachine& machine,
                                  ResidentChooser& resident);

/// That of an earlier attempt of the run, whose learning rate already has the factor.
MiniBatchChoice mini_batch_of(const Plan& earlier, const Options& options);

}  // namespace lockstep::train
