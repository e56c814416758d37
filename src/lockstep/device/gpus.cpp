#include "lockstep/device/gpus.h"

#include "lockstep/device/failure.h"
#include "lockstep/device/gpu.h"

namespace lockstep::device {

std::vector<GpuStatus> gpus() {
  const GpuState& state = inspect_gpus();
  std::vector<GpuStatus> all;
  try {
    for (const Gpu& gpu : state.gpus) {
      const GpuMemory memory = state.library->memory(gpu.index);
      all.push_back({gpu.index, gpu.name, gpu.capability, memory.total, memory.free});
    }
  } catch (...) {
    throw error_of(std::current_exception());
  }
  return all;
}

}  // namespace lockstep::device
