#define LOCKSTEP_KERNELS avx512_kernels
#include "lockstep/device/kernels_body.h"
