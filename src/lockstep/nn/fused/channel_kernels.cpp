#include "lockstep/nn/fused/channel_kernels.h"

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
  static const ChannelKernels<T>& chosen = []() -> const ChannelKernels<T>& {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return avx512_channel_kernels(T{});
    if (__builtin_cpu_supports("avx2")) return avx2_channel_kernels(T{});
    return plain_channel_kernels(T{});
  }();
  return chosen;
}

template const ChannelKernels<float>& channel_kernels<float>();
template const ChannelKernels<BFloat16>& channel_kernels<BFloat16>();

}  // namespace lockstep::nn::fused
