// The resources of this machine: usable cores, vector units, memory, GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::device {

struct Gpu {
  int64_t index = 0;
  std::string name;
  int64_t memory_bytes = 0;
  std::string capability;  ///< e.g. "9.0"
};

struct Inventory {
  std::string processor;                  ///< model name
  int64_t cores_online = 1;               ///< of the machine
  int64_t cores = 1;                      ///< allowed by affinity and control group, at least 1
  std::string cores_reason;               ///< why fewer than online; empty if all
  std::vector<std::string> vector_units;  ///< of avx2, avx512f, avx512_bf16, amx_bf16, ...
  int64_t memory_bytes = 0;               ///< allowed by the control group
  int64_t free_memory_bytes = 0;  ///< of these, the part that is not in use; cached files count as unused
  std::vector<Gpu> gpus;
  std::string gpu_note;  ///< why there is no GPU to use: "no NVIDIA driver on this machine", ...
  std::string gpu_hint;  ///< what to do about it
};

/// Bytes that this machine and every control group of this process allow.
int64_t memory_limit();

/// Looks now; cheap except for the first look at GPUs.
Inventory inspect();

}  // namespace lockstep::device
