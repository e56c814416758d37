// For processors with an instruction that multiplies pairs of bfloat16 numbers.
#include "lockstep/kernels/internal/linear_pairs.h"

namespace lockstep::kernels {
namespace {

constexpr LinearKernels<BFloat16> kPairKernels{&forward_by_pairs,
                                               &input_gradient_by_pairs,
                                               &weight_gradient_by_pairs<false>,
                                               &weight_gradient_by_pairs<true>,
                                               &linear_bias_gradient<BFloat16>,
                                               &transpose<BFloat16>};

}  // namespace

const LinearKernels<BFloat16>& bf16_linear_kernels(BFloat16) { return kPairKernels; }

}  // namespace lockstep::kernels
