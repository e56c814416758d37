// Which trials keep their weights, so that a sweep does not fill the disk.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// Of the trials that are over, only the best --keep-weights keep weights and checkpoints; the others'
/// numbers are added to `dropped`. What cannot be removed stays.
void drop_weights(const SweepPaths& paths, const SweepSpec& spec, const std::vector<Trial>& trials,
                  std::set<int64_t>& dropped);

}  // namespace lockstep::sweep
