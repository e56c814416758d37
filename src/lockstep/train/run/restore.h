// Puts saved weights and optimizer state into a training.
#pragma once

#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/training.h"

namespace lockstep::train {

/// From a checkpoint's files, or from the end of an earlier fit. Throws corrupt_data if they are of another
/// network, or damaged.
void restore(Training& training, const Checkpoint& checkpoint);
void restore(Training& training, const Standing& standing);

}  // namespace lockstep::train
