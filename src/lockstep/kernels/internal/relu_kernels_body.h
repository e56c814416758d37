// The text of the ReLU kernels, compiled once per instruction set; LOCKSTEP_RELU_KERNELS is the name of the
// function that returns them. The compiler vectorises the loops. bfloat16 numbers are compared as whole
// numbers, of which a vector has twice as many as floats.
#pragma once

#include "lockstep/kernels/internal/vectors.h"
#include "lockstep/kernels/relu_kernels.h"

namespace lockstep::kernels {
namespace {

inline float relu_of(float value) { return value < 0.0F ? 0.0F : value; }
// From minus zero down to minus infinity, without NaNs.
inline bool is_negative(uint16_t bits) { return static_cast<uint16_t>(bits - 0x8000U) <= 0x7f80U; }
inline BFloat16 relu_of(BFloat16 value) { return {is_negative(value.bits) ? uint16_t{0} : value.bits}; }

inline float gradient_of(float gradient, float output) { return output <= 0.0F ? 0.0F : gradient; }
inline BFloat16 gradient_of(BFloat16 gradient, BFloat16 output) {
  return {is_negative(output.bits) || output.bits == 0 ? uint16_t{0} : gradient.bits};
}

/// Calls work(begin, count) for pieces of a row.
template <class Work>
inline void in_pieces(int64_t columns, Work&& work) {
  constexpr int64_t kPiece = 256;
  for (int64_t begin = 0; begin < columns; begin += kPiece)
    work(begin, kernels::smaller(kPiece, columns - begin));
}

template <class T>
void relu(int64_t rows, int64_t columns, Rows<const T> input, Rows<T> output) {
  for (int64_t row = 0; row < rows; ++row, input.data += input.step, output.data += output.step) {
    in_pieces(columns, [from = input.data, to = output.data](int64_t begin, int64_t count) {
      kernels::fetch_all_ahead(from + begin, count);
      kernels::fetch_all_ahead<kernels::kToWrite>(to + begin, count);
#pragma GCC ivdep
      for (int64_t i = begin; i < begin + count; ++i) to[i] = relu_of(from[i]);
    });
  }
}

template <class T>
void relu_gradient(int64_t rows, int64_t columns, Rows<const T> gradient, Rows<const T> output,
                   Rows<T> input_gradient) {
  for (int64_t row = 0; row < rows; ++row, gradient.data += gradient.step, output.data += output.step,
               input_gradient.data += input_gradient.step) {
    in_pieces(columns, [from = gradient.data, by = output.data, to = input_gradient.data](int64_t begin,
                                                                                          int64_t count) {
      kernels::fetch_all_ahead(from + begin, count);
      kernels::fetch_all_ahead(by + begin, count);
      kernels::fetch_all_ahead<kernels::kToWrite>(to + begin, count);
#pragma GCC ivdep
      for (int64_t i = begin; i < begin + count; ++i) to[i] = gradient_of(from[i], by[i]);
    });
  }
}

template <class T>
void add_relu(int64_t count, const T* a, const T* b, T* output) {
  constexpr int kLanes = kernels::kWidest;
  int64_t i = 0;
  const auto sum = [](kernels::Vector<kLanes> left, kernels::Vector<kLanes> right) {
    const kernels::Vector<kLanes> value = left + right;
    return value < 0.0F ? kernels::Vector<kLanes>{} : value;
  };
  for (; i + kLanes <= count; i += kLanes)
    kernels::store<kLanes>(sum(kernels::load<kLanes>(a + i), kernels::load<kLanes>(b + i)), output + i);
  if (i < count)
    kernels::store_some<kLanes>(
        sum(kernels::load_some<kLanes>(a + i, count - i), kernels::load_some<kLanes>(b + i, count - i)),
        output + i, count - i);
}

template <class T>
constexpr ReluKernels<T> kKernels{&relu<T>, &relu_gradient<T>, &add_relu<T>};

}  // namespace

const ReluKernels<float>& LOCKSTEP_RELU_KERNELS(float) { return kKernels<float>; }
const ReluKernels<BFloat16>& LOCKSTEP_RELU_KERNELS(BFloat16) { return kKernels<BFloat16>; }

}  // namespace lockstep::kernels
