#include "lockstep/nn/fused/channel_kernels.h"

#include "lockstep/device/isa.h"

namespace lockstep::nn::fused {

#define LOCKSTEP_DECLARE(name)                      \
  const ChannelKernels<float>& name(float);         \
  const ChannelKernels<BFloat16>& name(BFloat16);
LOCKSTEP_DECLARE(plain_channel_kernels)
LOCKSTEP_DECLARE(avx2_channel_kernels)
LOCKSTEP_DECLARE(avx512_channel_kernels)
#undef LOCKSTEP_DECLARE

template <class T>
const ChannelKernels<T>& channel_kernels() {
  static const auto& chosen = device::for_vector_unit(plain_channel_kernels(T{}), avx2_channel_kernels(T{}), avx512_channel_kernels(T{}));
  return chosen;
}

template const ChannelKernels<float>& channel_kernels<float>();
template const ChannelKernels<BFloat16>& channel_kernels<BFloat16>();

}  // namespace lockstep::nn::fused
