// Dropout in one pass, with the same mask on a CPU and on a GPU. On a CPU LibTorch draws each number of its
// mask separately, which takes longer than the layers around it.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Whether dropout() supports this tensor.
bool fits_fused_dropout(const at::Tensor& input);

/// Each number becomes zero with `probability`, rounded to 1/65536; the others are divided by the share that
/// is kept. The mask of a sample is a function of its seed (SampleSeeds) and of the position in its memory;
/// backward computes it again.
at::Tensor fused_dropout(const at::Tensor& input, double probability);

}  // namespace lockstep::kernels
