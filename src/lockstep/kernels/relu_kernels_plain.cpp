#define LOCKSTEP_RELU_KERNELS plain_relu_kernels
#include "lockstep/kernels/internal/relu_kernels_body.h"
