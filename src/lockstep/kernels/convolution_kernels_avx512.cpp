#define LOCKSTEP_CONVOLUTION_KERNELS avx512_convolution_kernels
#include "lockstep/kernels/internal/convolution_kernels_body.h"
