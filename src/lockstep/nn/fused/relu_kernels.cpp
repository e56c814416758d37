#include "lockstep/nn/fused/relu_kernels.h"

#include "lockstep/nn/direct/kernel_table.h"

namespace lockstep::nn::fused {

LOCKSTEP_CHOOSE_KERNELS(ReluKernels, relu_kernels)

}  // namespace lockstep::nn::fused
