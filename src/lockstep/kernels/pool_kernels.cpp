#include "lockstep/kernels/pool_kernels.h"

#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_CHOOSE_KERNELS(PoolKernels, pool_kernels)

}  // namespace lockstep::kernels
