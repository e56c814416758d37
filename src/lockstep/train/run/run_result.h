// What a run returns, and its event `end`.
#pragma once

#include <string>

#include "lockstep/base/json.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// As far as a checkpoint knows it: without epochs and images_per_second.
Result result_at(const RunState& state, EndReason reason, const record::RunPaths& paths);

/// The values of the event `end`, as far as a checkpoint knows them.
///   reason  a name of EndReason
///   step    of the plan
Json end_values(const RunState& state, const std::string& reason, const StepPlan& step,
                const record::RunPaths& paths);

}  // namespace lockstep::train
