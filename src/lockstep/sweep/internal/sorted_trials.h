// Trials in the order of their values, kept from one suggestion to the next: to sort them anew each time
// would take most of the time of a search over many trials.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/sweep/internal/parzen.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {

/// What it gives depends on the observations alone, not on what it has kept.
class SortedTrials {
 public:
  /// Takes the points of trials that it does not know yet. If a trial has another point than before, it
  /// begins anew.
  void take(std::span<const Observation> observations);

  /// The orders of these observations, all of which it has taken: of each parameter in `which`, positions in
  /// `observations`.
  ValueOrders orders_of(const std::vector<const Observation*>& observations,
                        const std::vector<size_t>& which) const;

 private:
  void insert(const Observation& one);

  std::vector<Point> points_;  // of the trials; empty: not known
  std::vector<std::vector<uint32_t>>
      sorted_;  // of each parameter: trials by their values, then by their numbers
};

}  // namespace lockstep::sweep
