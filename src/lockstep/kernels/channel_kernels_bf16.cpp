// For processors with an instruction that rounds to bfloat16.
#define LOCKSTEP_CHANNEL_KERNELS bf16_channel_kernels
#include "lockstep/kernels/internal/channel_kernels_body.h"
