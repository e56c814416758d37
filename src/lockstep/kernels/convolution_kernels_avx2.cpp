#define LOCKSTEP_CONVOLUTION_KERNELS avx2_convolution_kernels
#include "lockstep/kernels/internal/convolution_kernels_body.h"
