#define LOCKSTEP_RELU_KERNELS plain_relu_kernels
#include "lockstep/nn/fused/relu_kernels_body.h"
