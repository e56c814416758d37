#define LOCKSTEP_CHANNEL_KERNELS avx2_channel_kernels
#include "lockstep/nn/fused/channel_kernels_body.h"
