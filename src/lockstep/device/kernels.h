// Elementwise work over flat buffers of the CPU. The same bits with every vector width, for nothing is
// contracted or reordered.
#pragma once

#include <cstdint>

#include "lockstep/device/update_rule.h"

namespace lockstep::device {

/// One set of kernels, compiled for one instruction set. T is float or double; pointers may not overlap
/// unless equal.
template <class T>
struct Kernels {
  /// sum[i] = left[i] + right[i]
  void (*add)(T* sum, const T* left, const T* right, int64_t count);
  /// sum of squares in double: eight interleaved partial sums, added in a fixed order
  double (*sum_of_squares)(const T* values, int64_t count);
  /// one optimizer step; first and second may be null when the rule keeps no such state
  void (*update)(const UpdateRule& rule, const T* gradient, T* weight, T* first, T* second, int64_t count);
};

/// The widest set that this processor and pin_isa allow; looked up once.
template <class T>
const Kernels<T>& kernels();

}  // namespace lockstep::device
