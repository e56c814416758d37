#include "lockstep/kernels/linear_kernels.h"

#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_CHOOSE_KERNELS_OR_BF16(LinearKernels, linear_kernels)

}  // namespace lockstep::kernels
