// The GPUs of this machine, for programs: MATLAB's gpuDeviceTable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::device {

struct GpuStatus {
  int64_t index = 0;         ///< from 0, in the driver's order of the GPUs that this process may use
  std::string name{};        ///< e.g. "NVIDIA H200"
  std::string capability{};  ///< e.g. "9.0"
  int64_t memory_bytes = 0;
  int64_t free_memory_bytes = 0;  ///< now, by the driver's count, so memory of other processes is not free
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("index", self.index, "");
    field("name", self.name, "");
    field("capability", self.capability, "");
    field("memory_bytes", self.memory_bytes, "");
    field("free_memory_bytes", self.free_memory_bytes, "");
  };
};

/// All GPUs that this process may use, in the order of their indices; empty if there is no GPU to use
/// (lockstep doctor says why). Can be called by the client and in a task; a worker's own GPU is
/// WorkerInfo::gpu. Any thread. The first call opens each GPU, which takes some of its memory. Throws device.
std::vector<GpuStatus> gpus();

}  // namespace lockstep::device
