// Whether the small shards of a user's module are computed together.
#pragma once

#include "lockstep/train/options/options.h"
#include "lockstep/train/planning/plan_lines.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/planning/this_machine.h"

namespace lockstep::train {

struct ModuleRequest {
  const Options& options;
  const ThisMachine& machine;
  const Plan* earlier;  ///< with which the run began, which decides; null: it begins now
};

/// Fills in NetworkPlan::module_together, module_apart and sums_shards of a module. A function of network,
/// options and kind of device; the module is tried with made-up images.
///   prepared  its network, prototype, and of its plan network, data, step and exchange
void choose_module_pass(Prepared& prepared, PlanReasons& reasons, const ModuleRequest& request);

/// Tries a module whose shards go together again, with shards of this many samples. False if it is refused:
/// the plan is then changed, and the mini-batch must be chosen again.
bool keeps_module_pass(Prepared& prepared, int64_t samples);

}  // namespace lockstep::train
