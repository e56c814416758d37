// How long a run is when the user does not say. A small folder has few steps an epoch, and a network with
// batch norm needs some dozens of them before its running statistics, and so its held-out accuracy, mean
// anything: limits are counted in steps as well as in epochs.
#pragma once

#include <cstdint>

namespace lockstep::train {

/// The most epochs: about 500 steps' worth, from 6 to 30, and more than 30 where those are under 250 steps.
int64_t default_epochs(int64_t steps_per_epoch);

/// The steps of so many epochs, at most `max_steps` where that is not 0. Throws invalid_option where they are
/// more than a run may have (kMostSteps).
int64_t total_steps(int64_t max_epochs, int64_t steps_per_epoch, int64_t max_steps);

/// The validations without a better accuracy that end a run: 5, and more where those are under 60 steps.
int64_t default_patience(int64_t steps_between_validations);

}  // namespace lockstep::train
