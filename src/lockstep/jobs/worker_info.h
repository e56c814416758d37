// Information about one worker of a pool.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/describe.h"

namespace lockstep::jobs {

/// The current state. A task may return it.
struct WorkerInfo {
  int64_t index = 0;    ///< in the pool, from 0
  int64_t process = 0;  ///< for a pool of threads, the client's
  bool ready = false;   ///< false while a process starts
  bool busy = false;
  std::string host{};      ///< name of its machine
  std::string cores{};     ///< of the machine, that it may use, as the kernel writes them: "0-3,8"
  int64_t gpu = -1;        ///< index of its GPU, as in device::gpus(); -1: it computes on the CPU
  std::string gpu_name{};  ///< e.g. "NVIDIA H200"
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("index", self.index, "in the pool");
    field("process", self.process, "");
    field("ready", self.ready, "");
    field("busy", self.busy, "it runs a task");
    field("host", self.host, "");
    field("cores", self.cores, "");
    field("gpu", self.gpu, "-1: none");
    field("gpu_name", self.gpu_name, "");
  };
  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

}  // namespace lockstep::jobs
