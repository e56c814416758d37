#define LOCKSTEP_CHANNEL_KERNELS plain_channel_kernels
#include "lockstep/nn/fused/channel_kernels_body.h"
