// From tensors to the plain pointers to float or BFloat16 that kernels take.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {

/// Calls visit(float{}) for float32 and visit(BFloat16{}) for bfloat16; the type must be one of them.
template <class Visit>
void visit_type(at::ScalarType type, Visit&& visit) {
  if (type == at::kFloat) {
    visit(float{});
  } else {
    visit(kernels::BFloat16{});
  }
}

/// The tensor's memory; null if it is undefined.
template <class T>
T* data(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.mutable_data_ptr()) : nullptr;
}

/// Memory for a result of the same form as `ordered`, which is the gradient that backward was `given`, or a
/// copy of it: its own memory, in the cache as it is, if nobody else can reach it. backward must take its
/// list of gradients by reference, and the kernel must read each number before it writes it.
inline at::Tensor memory_of_result(const at::Tensor& given, const at::Tensor& ordered) {
  const size_t known = ordered.is_same(given) ? 2 : 1;
  const bool is_free = ordered.use_count() == known && ordered.storage().use_count() == 1;
  return is_free ? ordered : at::empty_like(ordered);
}

}  // namespace lockstep::kernels
