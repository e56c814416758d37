#define LOCKSTEP_POOL_KERNELS plain_pool_kernels
#include "lockstep/nn/direct/pool_kernels_body.h"
