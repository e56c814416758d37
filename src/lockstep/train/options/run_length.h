// The default length of a run. A small folder has few steps per epoch, and a network with batch norm needs
// some dozens of steps before its running statistics, and so its held-out accuracy, mean anything: limits are
// counted in steps as well as in epochs.
#pragma once

#include <cstdint>

namespace lockstep::train {

/// Epochs that make about 500 steps, from 6 to 30, and more than 30 if those are fewer than 250 steps.
int64_t default_epochs(int64_t steps_per_epoch);

/// The steps of max_epochs epochs, at most `max_steps` if that is not 0. Throws invalid_option if they are
/// more than a run may have (kMostSteps).
int64_t total_steps(int64_t max_epochs, int64_t steps_per_epoch, int64_t max_steps);

/// Validations without a better accuracy that end a run: 5, and more if those are fewer than 60 steps.
int64_t default_patience(int64_t steps_between_validations);

}  // namespace lockstep::train
