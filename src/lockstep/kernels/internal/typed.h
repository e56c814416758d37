// From tensors to the plain pointers to float or BFloat16 that kernels take.
#pragma once

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

}  // namespace lockstep::kernels
