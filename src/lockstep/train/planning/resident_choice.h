// Whether the images of a run lie in the memory of its GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/train/cache/resident_images.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// Asks the GPU for its free memory only once, because trials during planning take some of it.
class ResidentChooser {
 public:
  explicit ResidentChooser(Resident asked) : asked_(asked) {}

  /// choose_resident (resident_images.h) for the plan's GPU. A stream is never resident.
  ResidentChoice choose(const Plan& plan);

 private:
  Resident asked_;
  std::optional<int64_t> free_bytes_;
};

}  // namespace lockstep::train
