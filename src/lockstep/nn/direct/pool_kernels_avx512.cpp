#define LOCKSTEP_POOL_KERNELS avx512_pool_kernels
#include "lockstep/nn/direct/pool_kernels_body.h"
