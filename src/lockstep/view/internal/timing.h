// How the time of a step is spent.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/record/event.h"
#include "lockstep/view/internal/line.h"

namespace lockstep::view {

inline constexpr std::array<const char*, 6> kStepParts{"queue",    "forward", "backward",
                                                       "exchange", "update",  "checkpoint"};

/// Collects the breakdown of all steps except the first, which also allocates memory and prepares kernels.
class Timing {
 public:
  void add(const record::Event& step);

  /// A table narrower than `columns`: each part's median milliseconds over the last kKeptSteps steps, and its
  /// share of the time of all steps. Then how much of the exchange is hidden, and the behaviour of the
  /// memory, for the run that ended with `end`. Empty without steps.
  std::vector<Line> table(const record::Event& end, int columns, bool colour) const;

 private:
  static constexpr size_t kKeptSteps = 4096;

  int64_t step_count_ = 0;
  bool past_first_ = false;
  std::array<double, kStepParts.size()> sums_{};
  std::array<std::vector<double>, kStepParts.size()> kept_;
  std::vector<double> kept_faults_;
  double hidden_exchange_ = 0;  ///< over all steps, at the same time as backward
};

}  // namespace lockstep::view
