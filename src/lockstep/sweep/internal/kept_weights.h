// Which trials keep their weights, so that a sweep does not fill the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <tuple>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// Of the trials that are over, only the best --keep-weights keep weights and checkpoints. A trial costs a
/// look at those that are kept, however many there are. One thread.
class KeptWeights {
 public:
  KeptWeights(SweepPaths paths, const SweepSpec& spec);

  /// Takes a trial that is over, each once. Removes the weights of the one that is not among the best any
  /// more; what cannot be removed stays.
  void take(const Trial& trial);

 private:
  using Rank = std::tuple<bool, bool, double, int64_t>;  // the best first
  void remove(int64_t trial) const;

  SweepPaths paths_;
  size_t count_;  // 0: all
  double sign_;
  std::set<int64_t> taken_;
  std::set<Rank> best_;
};

}  // namespace lockstep::sweep
