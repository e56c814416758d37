// What a run returns, its event `end`, its result.json, and its status where it begins.
#pragma once

#include <string>

#include "lockstep/record/event_kinds.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/status_file.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/wishes.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// As far as a checkpoint knows it: without epochs and images_per_second.
Result result_at(const RunState& state, EndReason reason, const record::RunPaths& paths);

/// The event `end`, as far as a checkpoint knows it.
///   reason  a name of EndReason
///   step    of the plan
record::End end_of(const RunState& state, const std::string& reason, const StepPlan& step,
                   const record::RunPaths& paths);

/// result.json, without epochs, the weights' hash and the start.
record::Result record_of(const RunState& state, const record::End& end);

/// The epoch of a step, from 1; that of the last step of earlier calls of fit, or 0, where none has followed.
int64_t epoch_of_step(const LengthPlan& length, int64_t step);

/// The status of an attempt that begins where a checkpoint stands.
record::Status status_at(const RunState& state, int64_t attempt, const LengthPlan& length);

/// Why a run ended, for people who look at the list of runs.
///   console  whether it was started by a command
std::string reason_of_end(EndReason reason, const Wishes& wishes, bool console);

}  // namespace lockstep::train
