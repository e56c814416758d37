#include "lockstep/comm/internal/sum_buffer.h"

#include <ATen/ops/empty.h>

namespace lockstep::comm {

bool is_held_elsewhere(const at::Tensor& buffer) {
  return buffer.use_count() > 1 || buffer.storage().use_count() > 1;
}

void renew_sum(at::Tensor& sum, int64_t elements, at::ScalarType type) {
  if (sum.defined() && !is_held_elsewhere(sum) && sum.numel() == elements && sum.scalar_type() == type)
    return;
  sum = at::empty({elements}, at::TensorOptions().dtype(type));
}

}  // namespace lockstep::comm
