#include "lockstep/nn/direct/linear_kernels.h"

#include "lockstep/nn/direct/kernel_table.h"

namespace lockstep::nn::direct {

LOCKSTEP_CHOOSE_KERNELS(LinearKernels, linear_kernels)

}  // namespace lockstep::nn::direct
