#include "lockstep/kernels/channel_kernels.h"

#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_CHOOSE_KERNELS_OR_BF16(ChannelKernels, channel_kernels)

}  // namespace lockstep::kernels
