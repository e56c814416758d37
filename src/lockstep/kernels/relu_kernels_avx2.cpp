#define LOCKSTEP_RELU_KERNELS avx2_relu_kernels
#include "lockstep/kernels/internal/relu_kernels_body.h"
