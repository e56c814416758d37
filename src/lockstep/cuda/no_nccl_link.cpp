#include <stdexcept>

#include "lockstep/cuda/nccl_link.h"

namespace lockstep::cuda {

std::string nccl_token() { throw std::runtime_error("the CUDA plug-in was built without NCCL"); }
std::unique_ptr<device::GpuLink> connect_nccl(const device::GpuLinkPlace&) {
  throw std::runtime_error("the CUDA plug-in was built without NCCL");
}

}  // namespace lockstep::cuda
