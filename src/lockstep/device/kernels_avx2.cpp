#define LOCKSTEP_KERNELS avx2_kernels
#include "lockstep/device/kernels_body.h"
