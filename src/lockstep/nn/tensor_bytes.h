#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

/// The bytes of a contiguous tensor on the CPU, valid as long as its storage.
inline std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace lockstep::nn
