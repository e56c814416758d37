#include "lockstep/device/kernels.h"

#include <cstdlib>
#include <string_view>

namespace lockstep::device {

#define LOCKSTEP_DECLARE(name)            \
  const Kernels<float>& name(float);      \
  const Kernels<double>& name(double);
LOCKSTEP_DECLARE(plain_kernels)
LOCKSTEP_DECLARE(avx2_kernels)
LOCKSTEP_DECLARE(avx512_kernels)
#undef LOCKSTEP_DECLARE

template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T>& chosen = []() -> const Kernels<T>& {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return avx512_kernels(T{});
    if (__builtin_cpu_supports("avx2")) return avx2_kernels(T{});
    return plain_kernels(T{});
  }();
  return chosen;
}

template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

}  // namespace lockstep::device
