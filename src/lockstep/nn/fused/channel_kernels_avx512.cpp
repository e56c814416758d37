#define LOCKSTEP_CHANNEL_KERNELS avx512_channel_kernels
#include "lockstep/nn/fused/channel_kernels_body.h"
