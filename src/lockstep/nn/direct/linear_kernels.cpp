#include "lockstep/nn/direct/linear_kernels.h"

#include "lockstep/device/isa.h"

namespace lockstep::nn::direct {

#define LOCKSTEP_DECLARE(name)                      \
  const LinearKernels<float>& name(float);     \
  const LinearKernels<BFloat16>& name(BFloat16);
LOCKSTEP_DECLARE(plain_linear_kernels)
LOCKSTEP_DECLARE(avx2_linear_kernels)
LOCKSTEP_DECLARE(avx512_linear_kernels)
#undef LOCKSTEP_DECLARE

template <class T>
const LinearKernels<T>& linear_kernels() {
  static const auto& chosen = device::for_vector_unit(plain_linear_kernels(T{}), avx2_linear_kernels(T{}), avx512_linear_kernels(T{}));
  return chosen;
}

template const LinearKernels<float>& linear_kernels<float>();
template const LinearKernels<BFloat16>& linear_kernels<BFloat16>();

}  // namespace lockstep::nn::direct
