#define LOCKSTEP_CHANNEL_KERNELS avx2_channel_kernels
#include "lockstep/kernels/internal/channel_kernels_body.h"
