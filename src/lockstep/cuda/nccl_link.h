// The link between GPUs of several ranks: NCCL's point-to-point messages. NCCL's own sums are not used,
// because their order depends on the number of ranks and on the wires between them; comm/gpu_communicator.cpp
// adds slices in a fixed order.
#pragma once

#include <memory>
#include <string>

#include "lockstep/device/gpu_link.h"

namespace lockstep::cuda {

/// Throw std::runtime_error in NCCL's words, and if the plug-in was built without NCCL.
std::string nccl_token();
std::unique_ptr<device::GpuLink> connect_nccl(const device::GpuLinkPlace& place);

}  // namespace lockstep::cuda
