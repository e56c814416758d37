#define LOCKSTEP_CONVOLUTION_KERNELS plain_convolution_kernels
#include "lockstep/nn/direct/convolution_kernels_body.h"
