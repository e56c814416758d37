#include "lockstep/nn/direct/pool_kernels.h"

#include "lockstep/nn/direct/kernel_table.h"

namespace lockstep::nn::direct {

LOCKSTEP_CHOOSE_KERNELS(PoolKernels, pool_kernels)

}  // namespace lockstep::nn::direct
