// Finds where two runs diverge, from the weights' hashes in their event logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::record {

/// The first step after which two runs have different weights.
struct Difference {
  int64_t step = 0;
  int64_t last_equal_step = 0;  ///< the last earlier step with equal hashes; 0 if there is none
  std::string hash_a;
  std::string hash_b;
};

/// Compares the `hash` events of the steps that both runs have. None if all are equal, or if the runs have no
/// common step (see common_hash_steps).
std::optional<Difference> first_difference(const std::vector<Event>& events_a,
                                           const std::vector<Event>& events_b);

/// Number of steps that both runs hashed.
int64_t common_hash_steps(const std::vector<Event>& events_a, const std::vector<Event>& events_b);

}  // namespace lockstep::record
