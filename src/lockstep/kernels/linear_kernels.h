// Fully connected layers with few outputs, such as the last layer of a classifier, or for few samples, on one
// thread. Each pass reads the input and the weight once.
#pragma once

#include <cstdint>

#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {

using kernels::BFloat16;

/// input [batch, features], weight [outputs, features], output [batch, outputs], all contiguous.
struct LinearShape {
  int64_t batch;
  int64_t features;
  int64_t outputs;
  int64_t shards = 1;  ///< equal parts of the batch: gradients of weight and bias are summed in each part,
                       ///< and the sums are added in the tree over the parts
};

/// One set, compiled for one instruction set. T, float or BFloat16, is the type of values in memory;
/// arithmetic and gradients of weight and bias are in float. Any thread may call. Bits depend only on the
/// instruction set, the shape and the values.
template <class T>
struct LinearKernels {
  /// output = input * weight^T, plus bias [outputs] unless it is null
  void (*forward)(const LinearShape& shape, const T* input, const T* weight, const T* bias, T* output);
  /// input_gradient [batch, features] = gradient [batch, outputs] * weight
  void (*input_gradient)(const LinearShape& shape, const T* gradient, const T* weight, T* input_gradient);
  /// weight_gradient = gradient^T * input
  void (*weight_gradient)(const LinearShape& shape, const T* gradient, const T* input,
                          float* weight_gradient);
  /// sum += gradient^T * input, with the same bits as if the product were written first and then added
  void (*add_weight_gradient)(const LinearShape& shape, const T* gradient, const T* input, float* sum);
  /// bias_gradient = gradient summed over the batch
  void (*bias_gradient)(const LinearShape& shape, const T* gradient, float* bias_gradient);
  /// result [count, columns, rows] of matrices [count, rows, columns]
  void (*transpose)(const T* matrices, int64_t count, int64_t rows, int64_t columns, T* result);
};

/// The widest set that device::vector_unit() allows.
template <class T>
const LinearKernels<T>& linear_kernels();

}  // namespace lockstep::kernels
