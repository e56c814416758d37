// Dropout on a CPU in one pass: LibTorch draws each number of its mask by itself, which takes longer than the
// layers around it.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Whether dropout() takes this tensor.
bool fits_fused_dropout(const at::Tensor& input);

/// Each number is zero with `probability`, taken to the nearest 1/65536, and divided by the share that is
/// kept otherwise. The mask is a function of one draw of the generator and the place in memory; backward
/// makes it anew.
at::Tensor fused_dropout(const at::Tensor& input, double probability);

}  // namespace lockstep::kernels
