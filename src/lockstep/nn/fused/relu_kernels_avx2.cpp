#define LOCKSTEP_RELU_KERNELS avx2_relu_kernels
#include "lockstep/nn/fused/relu_kernels_body.h"
