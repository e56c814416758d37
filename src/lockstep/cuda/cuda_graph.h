// device::StepGraph by CUDA's graphs.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/device/step_graph.h"

namespace lockstep::cuda {

/// Its results lie in memory of its own, which LibTorch's allocator gives to nothing else while the object
/// lives.
std::unique_ptr<device::StepGraph> make_cuda_graph(int64_t gpu);

}  // namespace lockstep::cuda
