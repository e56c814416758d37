#include "lockstep/pool/worker_info.h"

#include <fstream>
#include <unistd.h>

#include "lockstep/base/host.h"
#include "lockstep/device/gpu.h"

namespace lockstep::pool {
namespace {

std::string own_cores() {
  std::ifstream status("/proc/self/status");
  const std::string name = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return "";
}

}  // namespace

WorkerInfo make_worker_info(int64_t index, int64_t gpu) {
  WorkerInfo info{.index = index,
                  .process = ::getpid(),
                  .ready = true,
                  .busy = true,
                  .host = host_name(),
                  .cores = own_cores(),
                  .gpu = gpu};
  if (gpu < 0) return info;
  for (const device::Gpu& one : device::inspect_gpus().gpus) {
    if (one.index == gpu) info.gpu_name = one.name;
  }
  return info;
}

}  // namespace lockstep::pool
