#include "lockstep/kernels/linear_kernels.h"

#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(LinearKernels, linear_kernels)
const LinearKernels<BFloat16>& bf16_linear_kernels(BFloat16);

namespace {

LOCKSTEP_DEFINE_WIDEST(LinearKernels, linear_kernels, vector_linear_kernels)

}  // namespace

template <>
const LinearKernels<float>& linear_kernels<float>() {
  return vector_linear_kernels<float>();
}

template <>
const LinearKernels<BFloat16>& linear_kernels<BFloat16>() {
  return device::rounds_to_bfloat16() ? bf16_linear_kernels({}) : vector_linear_kernels<BFloat16>();
}

}  // namespace lockstep::kernels
