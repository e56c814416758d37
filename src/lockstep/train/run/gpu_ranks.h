// Ranks on GPUs. Several GPUs of one process have a rank each, with its own thread. The workers of a rank
// share its GPU, and the ranks' gradients are added in the same tree as those of processes
// (comm/gpu_communicator.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/device/gpu_link.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// Calls `work` for each device on its own thread, with the communicator of its rank, whose tensors are on
/// the CPU, and its link to the other devices; returns when all calls have ended. A call that throws must
/// break the group. Throws what the first failing rank threw. The ranks of a task count as its worker
/// (pool/worker.h).
void on_each_gpu(
    const std::vector<at::Device>& devices,
    const std::function<void(comm::Communicator& comm, std::shared_ptr<device::GpuLink> link)>& work);

/// The communicator of the ranks' GPUs, over `comm`, which must outlive it; null on a CPU and for one rank.
/// Collective.
std::unique_ptr<comm::Communicator> link_gpus(const TrainingRequest& request, comm::Communicator& comm,
                                              const MachinePlan& machine);

}  // namespace lockstep::train
