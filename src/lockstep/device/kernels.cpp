#include "lockstep/device/kernels.h"

#include "lockstep/device/isa.h"

namespace lockstep::device {

#define LOCKSTEP_DECLARE(name)       \
  const Kernels<float>& name(float); \
  const Kernels<double>& name(double);
LOCKSTEP_DECLARE(plain_kernels)
LOCKSTEP_DECLARE(avx2_kernels)
LOCKSTEP_DECLARE(avx512_kernels)
#undef LOCKSTEP_DECLARE

template <class T>
const Kernels<T>& kernels() {
  static const auto& chosen =
      device::for_vector_unit(plain_kernels(T{}), avx2_kernels(T{}), avx512_kernels(T{}));
  return chosen;
}

template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

}  // namespace lockstep::device
