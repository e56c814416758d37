#define LOCKSTEP_LINEAR_KERNELS avx2_linear_kernels
#include "lockstep/nn/direct/linear_kernels_body.h"
