// Memory for sums that is reused from step to step.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::comm {

/// Whether another tensor, or a view of this one, uses the same memory. The tensor's own count does not
/// include views, and a detached view holds only the storage.
bool is_held_elsewhere(const at::Tensor& buffer);

/// Leaves `sum` unchanged if it is [elements] of `type` and nothing else holds it; otherwise replaces it with
/// new memory on the CPU. The content is undefined.
void renew_sum(at::Tensor& sum, int64_t elements, at::ScalarType type);

}  // namespace lockstep::comm
