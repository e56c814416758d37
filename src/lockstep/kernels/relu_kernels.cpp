#include "lockstep/kernels/relu_kernels.h"

#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_CHOOSE_KERNELS(ReluKernels, relu_kernels)

}  // namespace lockstep::kernels
