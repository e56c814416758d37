// The line between GPUs of several ranks: NCCL's point-to-point messages. None of NCCL's own sums is used,
// for they add in an order that depends on the number of ranks and on the wires between them;
// comm/gpu_communicator.cpp adds slices in a fixed one.
#pragma once

#include <memory>
#include <string>

#include "lockstep/device/gpu_link.h"

namespace lockstep::cuda {

/// Throw std::runtime_error in NCCL's words, and where the plug-in was built without NCCL.
std::string nccl_token();
std::unique_ptr<device::GpuLink> connect_nccl(const device::GpuLinkPlace& place);

}  // namespace lockstep::cuda
