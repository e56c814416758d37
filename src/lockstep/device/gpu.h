// The seam to the CUDA plug-in: one library that is opened when a driver is there, so that one program serves all machines.
#pragma once

#include <string>
#include <vector>

#include "lockstep/device/inventory.h"

namespace lockstep::device {

struct GpuState {
  std::vector<Gpu> gpus;
  std::string note;   ///< why there is none to use; empty when there are
};

/// Opens the plug-in on the first call. Any thread.
const GpuState& inspect_gpus();

}  // namespace lockstep::device
