// Macros for kernels that are compiled for three instruction sets from one text: three functions that return
// a set of kernels, and one that chooses among them at run time.
#pragma once

#include "lockstep/device/isa.h"

/// Declares plain_NAME, avx2_NAME and avx512_NAME, which return a Set<T> for T of float and BFloat16.
#define LOCKSTEP_DECLARE_KERNELS(Set, name)    \
  const Set<float>& plain_##name(float);       \
  const Set<BFloat16>& plain_##name(BFloat16); \
  const Set<float>& avx2_##name(float);        \
  const Set<BFloat16>& avx2_##name(BFloat16);  \
  const Set<float>& avx512_##name(float);      \
  const Set<BFloat16>& avx512_##name(BFloat16);

/// Defines WIDEST<T>(), the set of NAME that device::vector_unit() allows.
#define LOCKSTEP_DEFINE_WIDEST(Set, name, widest)                                         \
  template <class T>                                                                      \
  const Set<T>& widest() {                                                                \
    static const auto& chosen =                                                           \
        device::for_vector_unit(plain_##name(T{}), avx2_##name(T{}), avx512_##name(T{})); \
    return chosen;                                                                        \
  }

/// Defines NAME<T>() in this way, for float and BFloat16.
#define LOCKSTEP_CHOOSE_KERNELS(Set, name)  \
  LOCKSTEP_DECLARE_KERNELS(Set, name)       \
  LOCKSTEP_DEFINE_WIDEST(Set, name, name)   \
  template const Set<float>& name<float>(); \
  template const Set<BFloat16>& name<BFloat16>();

/// The same, but for BFloat16 bf16_NAME where the processor has instructions for it.
#define LOCKSTEP_CHOOSE_KERNELS_OR_BF16(Set, name)                                     \
  LOCKSTEP_DECLARE_KERNELS(Set, name)                                                  \
  const Set<BFloat16>& bf16_##name(BFloat16);                                          \
  namespace {                                                                          \
  LOCKSTEP_DEFINE_WIDEST(Set, name, vector_##name)                                     \
  }                                                                                    \
  template <>                                                                          \
  const Set<float>& name<float>() {                                                    \
    return vector_##name<float>();                                                     \
  }                                                                                    \
  template <>                                                                          \
  const Set<BFloat16>& name<BFloat16>() {                                              \
    return device::rounds_to_bfloat16() ? bf16_##name({}) : vector_##name<BFloat16>(); \
  }
