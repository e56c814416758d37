#define LOCKSTEP_LINEAR_KERNELS avx512_linear_kernels
#include "lockstep/nn/direct/linear_kernels_body.h"
