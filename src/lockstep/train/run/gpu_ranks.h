// Several GPUs of one process: a rank for each, on a thread of its own. Its workers share the GPU, and the
// ranks' gradients meet in the same tree as those of processes (comm/gpu_communicator.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/device/gpu_link.h"

namespace lockstep::train {

/// Calls `work` for every device on a thread of its own, with the communicator of its rank, whose tensors lie
/// on the CPU, and its line to the other devices; returns when all have ended. `work` breaks the group where
/// it throws. Throws what the rank met that failed first. A task's ranks count as its worker (pool/worker.h).
void on_each_gpu(
    const std::vector<at::Device>& devices,
    const std::function<void(comm::Communicator& comm, std::shared_ptr<device::GpuLink> link)>& work);

}  // namespace lockstep::train
