// device::StepGraph by CUDA's graphs.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/device/step_graph.h"

namespace lockstep::cuda {

/// Its results are in its own memory, which LibTorch's allocator does not use for anything else while the
/// object lives.
std::unique_ptr<device::StepGraph> make_cuda_graph(int64_t gpu);

}  // namespace lockstep::cuda
