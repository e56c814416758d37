#define LOCKSTEP_POOL_KERNELS avx512_pool_kernels
#include "lockstep/kernels/internal/pool_kernels_body.h"
