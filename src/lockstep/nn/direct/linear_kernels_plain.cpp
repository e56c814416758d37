#define LOCKSTEP_LINEAR_KERNELS plain_linear_kernels
#include "lockstep/nn/direct/linear_kernels_body.h"
