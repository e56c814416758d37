// Puts saved weights and optimizer state into a training.
#pragma once

#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/training.h"

namespace lockstep::train {

/// Throws corrupt_data naming the first tensor of the network that the checkpoint does not have in its place,
/// with both shapes.
void check_module(const nn::Instance& network, const Checkpoint& checkpoint);

/// From a checkpoint's files, or from the end of an earlier fit. Throws corrupt_data if they are of another
/// network, or damaged.
void restore(Training& training, const Checkpoint& checkpoint);
void restore(Training& training, const Standing& standing);

}  // namespace lockstep::train
