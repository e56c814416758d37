#define LOCKSTEP_KERNELS plain_kernels
#include "lockstep/device/kernels_body.h"
