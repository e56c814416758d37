#include "lockstep/kernels/channel_kernels.h"

#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ChannelKernels, channel_kernels)
const ChannelKernels<BFloat16>& bf16_channel_kernels(BFloat16);

namespace {

LOCKSTEP_DEFINE_WIDEST(ChannelKernels, channel_kernels, vector_channel_kernels)

}  // namespace

template <>
const ChannelKernels<float>& channel_kernels<float>() {
  return vector_channel_kernels<float>();
}

template <>
const ChannelKernels<BFloat16>& channel_kernels<BFloat16>() {
  return device::rounds_to_bfloat16() ? bf16_channel_kernels({}) : vector_channel_kernels<BFloat16>();
}

}  // namespace lockstep::kernels
