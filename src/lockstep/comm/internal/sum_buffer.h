// Memory of sums that is used again from step to step.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::comm {

/// Whether another tensor, or a view of this one, has the memory too. The tensor's own count does not know of
/// views, and a detached view keeps nothing but the storage.
bool is_held_elsewhere(const at::Tensor& buffer);

/// Leaves `sum` as it is when it is [elements] of `type` and nobody else has it; else it becomes new memory,
/// whatever was in it before. On the CPU.
void renew_sum(at::Tensor& sum, int64_t elements, at::ScalarType type);

}  // namespace lockstep::comm
