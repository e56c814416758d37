#define LOCKSTEP_CONVOLUTION_KERNELS avx2_convolution_kernels
#include "lockstep/nn/direct/convolution_kernels_body.h"
