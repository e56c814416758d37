// Launches of the plug-in's own kernels, over plain pointers, because nvcc would take minutes for LibTorch's
// headers.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "lockstep/device/dropout_rule.h"
#include "lockstep/device/update_rule.h"

namespace lockstep::cuda {

/// One optimizer step; first and second may be null if the rule has no such state. T is float or double.
template <class T>
void launch_update(const device::UpdateRule& rule, const T* gradient, T* weight, T* first, T* second,
                   int64_t count, cudaStream_t stream);

/// sums[i] = the sum of squares of block i, in the order of the CPU's kernel: eight interleaved partial sums,
/// added in a fixed order.
template <class T>
void launch_sums_of_squares(const T* values, int64_t count, int64_t block, double* sums, cudaStream_t stream);

enum class NumberKind { float32, float64, float16, bfloat16 };

/// One pass of dropout (kernels/fused_dropout.h).
struct Dropping {
  const int64_t* seeds;  ///< on the GPU, one for each sample
  int64_t sample;        ///< numbers of a sample
  int64_t count;         ///< of all samples
  device::Kept kept;
};

void launch_drop(NumberKind kind, const void* from, void* to, const Dropping& dropping, cudaStream_t stream);

}  // namespace lockstep::cuda
