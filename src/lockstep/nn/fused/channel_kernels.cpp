#include "lockstep/nn/fused/channel_kernels.h"

#include "lockstep/nn/direct/kernel_table.h"

namespace lockstep::nn::fused {

LOCKSTEP_CHOOSE_KERNELS(ChannelKernels, channel_kernels)

}  // namespace lockstep::nn::fused
