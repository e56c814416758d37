// Whether the small shards of a user's module are computed together.
#pragma once

#include <string>

#include "lockstep/train/planning/plan_lines.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

/// Fills in NetworkPlan::module_together, NetworkPlan::sums_shards of a module, and what the plan says of
/// both. A function of network and options; the module is tried with made-up images.
///   prepared  its network, prototype, and of its plan network, data, step and exchange
///   device    as in Placement
///   earlier   the plan with which the run began, which decides; null: it begins now
void choose_module_pass(Prepared& prepared, PlanReasons& reasons, const std::string& device,
                        const Plan* earlier);

}  // namespace lockstep::train
