// The kernels' text, compiled once per instruction set: kernels_plain.cpp, kernels_avx2.cpp,
// kernels_avx512.cpp define LOCKSTEP_KERNELS as the function that returns them. Everything here has internal
// linkage, or the linker would keep one set for all.
#pragma once

#include <algorithm>

#include "lockstep/device/kernels.h"

namespace lockstep::device {
namespace {

template <class T>
void add(T* sum, const T* left, const T* right, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

template <class T>
double sum_of_squares(const T* values, int64_t count) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane)
      lanes[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
  }
  for (int64_t lane = 0; i < count; ++i, ++lane)
    lanes[lane] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Elements go through small local arrays, so that a rule without some state needs no pointer and the loop
// still fills vectors.
template <class T>
void update(const UpdateRule& rule, const T* gradient, T* weight, T* first, T* second, int64_t count) {
  constexpr int64_t kChunk = 256;
  T no_first[kChunk] = {};
  T no_second[kChunk] = {};
  visit_update<T>(rule, [&](auto element) {
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int64_t size = std::min(kChunk, count - begin);
      const T* g = gradient + begin;
      T* w = weight + begin;
      T* f = first == nullptr ? no_first : first + begin;
      T* s = second == nullptr ? no_second : second + begin;
#pragma GCC ivdep
      for (int64_t i = 0; i < size; ++i) element(g[i], w[i], f[i], s[i]);
    }
  });
}

template <class T>
constexpr Kernels<T> kKernels{&add<T>, &sum_of_squares<T>, &update<T>};

}  // namespace

const Kernels<float>& LOCKSTEP_KERNELS(float) { return kKernels<float>; }
const Kernels<double>& LOCKSTEP_KERNELS(double) { return kKernels<double>; }

}  // namespace lockstep::device
