// Where two runs part: a reader of the weights' hashes in their event logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/io/event.h"

namespace lockstep::io {

/// The first step after which two runs have other weights.
struct Difference {
  int64_t step = 0;
  int64_t last_equal_step = 0;  ///< the last step before it whose hashes are equal; 0 when there is none
  std::string hash_a;
  std::string hash_b;
};

/// Compares the `hash` events of steps that both have. Nothing when all are equal, or when no step is in both
/// (see common_hash_steps).
std::optional<Difference> first_difference(const std::vector<Event>& events_a,
                                           const std::vector<Event>& events_b);

/// How many steps have a hash in both.
int64_t common_hash_steps(const std::vector<Event>& events_a, const std::vector<Event>& events_b);

}  // namespace lockstep::io
