// For processors that round to bfloat16 in one instruction.
#define LOCKSTEP_CHANNEL_KERNELS bf16_channel_kernels
#include "lockstep/kernels/internal/channel_kernels_body.h"
