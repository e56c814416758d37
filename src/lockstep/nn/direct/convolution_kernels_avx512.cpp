#define LOCKSTEP_CONVOLUTION_KERNELS avx512_convolution_kernels
#include "lockstep/nn/direct/convolution_kernels_body.h"
