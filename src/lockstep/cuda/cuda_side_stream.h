// A CUDA stream of its own for work beside the default stream's.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/device/side_stream.h"

namespace lockstep::cuda {

std::unique_ptr<device::SideStream> make_cuda_side_stream(int64_t gpu);

}  // namespace lockstep::cuda
