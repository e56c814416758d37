// The learning rate of a run that has begun again.
#pragma once

#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/update/schedule.h"

namespace lockstep::train {

/// The plan's schedule as the run stands: in a test of rates, with the rate that one has found, or with a
/// tenth of it after a loss that exploded.
Schedule schedule_of(const Plan& plan, const RunState& state);

}  // namespace lockstep::train
