// ReLU and its gradient, one pass each, on rows that may be parts of wider rows, so that the parts of a
// concatenation are not copied. The definition that checks them is in relu_definition_test.cpp.
#pragma once

#include <cstdint>

#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {

/// Rows of numbers, `step` numbers apart.
template <class T>
struct Rows {
  T* data;
  int64_t step;
};

/// One set, compiled for one instruction set; all sets give the same bits. Targets may be the sources. Any
/// thread may call.
template <class T>
struct ReluKernels {
  /// output = max(input, 0); a NaN stays a NaN
  void (*relu)(int64_t rows, int64_t columns, Rows<const T> input, Rows<T> output);
  /// input_gradient = gradient where the ReLU's output is not 0, otherwise 0
  void (*relu_gradient)(int64_t rows, int64_t columns, Rows<const T> gradient, Rows<const T> output,
                        Rows<T> input_gradient);
  /// output = max(a + b, 0), `count` numbers of each
  void (*add_relu)(int64_t count, const T* a, const T* b, T* output);
};

/// The widest set that device::vector_unit() allows.
template <class T>
const ReluKernels<T>& relu_kernels();

}  // namespace lockstep::kernels
