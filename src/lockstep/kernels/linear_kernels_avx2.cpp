#define LOCKSTEP_LINEAR_KERNELS avx2_linear_kernels
#include "lockstep/kernels/internal/linear_kernels_body.h"
