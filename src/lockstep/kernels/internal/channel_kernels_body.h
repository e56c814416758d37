// The text of the channel kernels, compiled once per instruction set; LOCKSTEP_CHANNEL_KERNELS is the name of
// the function that returns them.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lockstep/kernels/channel_kernels.h"
#include "lockstep/kernels/internal/channel_places.h"
#include "lockstep/kernels/internal/vectors.h"

namespace lockstep::kernels {
namespace {

constexpr int kRegisters = kernels::kManyRegisters ? 32 : 16;

using kernels::fetch_ahead;
using Floats = kernels::Vector<kLanes>;
typedef int32_t Mask __attribute__((vector_size(kLanes * 4)));

template <class T>
inline Floats load(const T* source) {
  return kernels::load<kLanes>(source);
}
template <class T>
inline void store(Floats value, T* target) {
  kernels::store<kLanes>(value, target);
}

/// Some neighbouring vectors, in registers.
template <int kVectors>
struct Block {
  Floats values[kVectors];

  static Block from(const float* source) {
    Block block;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) block.values[v] = load(source + v * kLanes);
    return block;
  }
  void to(float* target) const {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(values[v], target + v * kLanes);
  }
};

template <class T>
void store_scalar(float value, T* target) {
  T values[kLanes];
  store(value - Floats{}, values);
  *target = values[0];
}

template <class T>
struct Sum {
  const T* input;
  float* sums;

  template <int kVectors>
  void run(int64_t place, int64_t begin, int64_t strides, int64_t step) const {
    auto sum = Block<kVectors>::from(sums + place);
    const T* x = input + begin;
    for (int64_t s = 0; s < strides; ++s, x += step) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum.values[v] += load(x + v * kLanes);
    }
    sum.to(sums + place);
  }
  void run_rest(int64_t begin, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) sums[i] += kernels::to_float(input[begin + i]);
  }
};

template <class T>
struct SumOfSquares {
  const T* input;
  const float* means;
  float* sums;

  template <int kVectors>
  void run(int64_t place, int64_t begin, int64_t strides, int64_t step) const {
    auto sum = Block<kVectors>::from(sums + place);
    const auto mean = Block<kVectors>::from(means + place);
    const T* x = input + begin;
    for (int64_t s = 0; s < strides; ++s, x += step) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Floats delta = load(x + v * kLanes) - mean.values[v];
        sum.values[v] += delta * delta;
      }
    }
    sum.to(sums + place);
  }
  void run_rest(int64_t begin, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const float delta = kernels::to_float(input[begin + i]) - means[i];
      sums[i] += delta * delta;
    }
  }
};

template <class T>
void moments(const T* input, int64_t rows, int64_t channels, float* mean, float* deviation) {
  const Strides strides(rows, channels);
  Workspace workspace;
  const PlaceSums sums(strides, mean, workspace), squares(strides, deviation, workspace);
  strides.each<8>(Sum<T>{input, sums.places()});
  sums.fold();
  for (int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(rows);
  const float* means = repeated(strides, mean, workspace);
  strides.each<kRegisters / 4>(SumOfSquares<T>{input, means, squares.places()});
  squares.fold();
}

template <bool kRelu, class T>
struct Transform {
  const T* input;
  const float* scale;
  const float* shift;
  T* output;

  template <int kVectors>
  void run(int64_t place, int64_t begin, int64_t strides, int64_t step) const {
    const auto a = Block<kVectors>::from(scale + place);
    const auto b = Block<kVectors>::from(shift + place);
    for (int64_t s = 0; s < strides; ++s, begin += step) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        fetch_ahead(input + begin + v * kLanes);
        fetch_ahead<kernels::kToWrite>(output + begin + v * kLanes);
        const Floats value = load(input + begin + v * kLanes) * a.values[v] + b.values[v];
        store(kRelu ? (value < 0.0F ? Floats{} : value) : value, output + begin + v * kLanes);
      }
    }
  }
  void run_rest(int64_t begin, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const float value = kernels::to_float(input[begin + i]) * scale[i] + shift[i];
      store_scalar(kRelu && value < 0.0F ? 0.0F : value, output + begin + i);
    }
  }
};

template <class T>
void transform(const T* input, int64_t rows, int64_t channels, const float* scale, const float* shift,
               bool relu, T* output) {
  const Strides strides(rows, channels);
  Workspace workspace;
  const float* a = repeated(strides, scale, workspace);
  const float* b = repeated(strides, shift, workspace);
  constexpr int kMost = kRegisters / 4;
  if (relu) {
    strides.each<kMost>(Transform<true, T>{input, a, b, output});
  } else {
    strides.each<kMost>(Transform<false, T>{input, a, b, output});
  }
}

/// The output's gradient, zero where the ReLU made the output zero.
template <bool kRelu>
inline Floats passed(Floats gradient, Floats value, Floats scale, Floats shift) {
  return kRelu ? (value * scale + shift > 0.0F ? gradient : Floats{}) : gradient;
}

template <bool kRelu, class T>
struct GradientSums {
  const T* gradient;
  const T* input;
  const float* scale;
  const float* shift;
  const float* mean;
  float* sums;
  float* products;

  template <int kVectors>
  void run(int64_t place, int64_t begin, int64_t strides, int64_t step) const {
    const auto a = Block<kVectors>::from(scale + place), b = Block<kVectors>::from(shift + place),
               m = Block<kVectors>::from(mean + place);
    auto sum = Block<kVectors>::from(sums + place), product = Block<kVectors>::from(products + place);
    for (int64_t s = 0; s < strides; ++s, begin += step) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        fetch_ahead(input + begin + v * kLanes);
        fetch_ahead(gradient + begin + v * kLanes);
        const Floats value = load(input + begin + v * kLanes);
        const Floats g = passed<kRelu>(load(gradient + begin + v * kLanes), value, a.values[v], b.values[v]);
        sum.values[v] += g;
        product.values[v] += g * (value - m.values[v]);
      }
    }
    sum.to(sums + place);
    product.to(products + place);
  }
  void run_rest(int64_t begin, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const float value = kernels::to_float(input[begin + i]);
      const float g =
          kRelu && !(value * scale[i] + shift[i] > 0.0F) ? 0.0F : kernels::to_float(gradient[begin + i]);
      sums[i] += g;
      products[i] += g * (value - mean[i]);
    }
  }
};

template <class T>
void gradient_sums(const T* gradient, const T* input, int64_t rows, int64_t channels, const float* scale,
                   const float* shift, const float* mean, bool relu, float* sum, float* sum_of_products) {
  const Strides strides(rows, channels);
  Workspace workspace;
  const float* a = repeated(strides, scale, workspace);
  const float* b = repeated(strides, shift, workspace);
  const float* m = repeated(strides, mean, workspace);
  const PlaceSums sums(strides, sum, workspace), products(strides, sum_of_products, workspace);
  constexpr int kMost = kRegisters / 6;
  if (relu) {
    strides.each<kMost>(GradientSums<true, T>{gradient, input, a, b, m, sums.places(), products.places()});
  } else {
    strides.each<kMost>(GradientSums<false, T>{gradient, input, a, b, m, sums.places(), products.places()});
  }
  sums.fold();
  products.fold();
}

template <bool kRelu, class T>
struct InputGradient {
  const T* gradient;
  const T* input;
  const float* scale;
  const float* shift;
  const float* mean;
  const float* slope;
  const float* offset;
  T* result;

  template <int kVectors>
  void run(int64_t place, int64_t begin, int64_t strides, int64_t step) const {
    const auto a = Block<kVectors>::from(scale + place), b = Block<kVectors>::from(shift + place),
               m = Block<kVectors>::from(mean + place);
    const auto k = Block<kVectors>::from(slope + place), o = Block<kVectors>::from(offset + place);
    for (int64_t s = 0; s < strides; ++s, begin += step) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        fetch_ahead(input + begin + v * kLanes);
        fetch_ahead(gradient + begin + v * kLanes);
        const Floats value = load(input + begin + v * kLanes);
        const Floats g = passed<kRelu>(load(gradient + begin + v * kLanes), value, a.values[v], b.values[v]);
        fetch_ahead<kernels::kToWrite>(result + begin + v * kLanes);
        store(g * a.values[v] + (value - m.values[v]) * k.values[v] + o.values[v],
              result + begin + v * kLanes);
      }
    }
  }
  void run_rest(int64_t begin, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const float value = kernels::to_float(input[begin + i]);
      const float g =
          kRelu && !(value * scale[i] + shift[i] > 0.0F) ? 0.0F : kernels::to_float(gradient[begin + i]);
      store_scalar(g * scale[i] + (value - mean[i]) * slope[i] + offset[i], result + begin + i);
    }
  }
};

template <class T>
void input_gradient(const T* gradient, const T* input, int64_t rows, int64_t channels, const float* scale,
                    const float* shift, const float* mean, const float* slope, const float* offset, bool relu,
                    T* input_gradient) {
  const Strides strides(rows, channels);
  Workspace workspace;
  const float* a = repeated(strides, scale, workspace);
  const float* b = repeated(strides, shift, workspace);
  const float* m = repeated(strides, mean, workspace);
  const float* k = repeated(strides, slope, workspace);
  const float* o = repeated(strides, offset, workspace);
  constexpr int kMost = kRegisters / 6;
  if (relu) {
    strides.each<kMost>(InputGradient<true, T>{gradient, input, a, b, m, k, o, input_gradient});
  } else {
    strides.each<kMost>(InputGradient<false, T>{gradient, input, a, b, m, k, o, input_gradient});
  }
}

template <class T>
constexpr ChannelKernels<T> kKernels{&moments<T>, &transform<T>, &gradient_sums<T>, &input_gradient<T>};

}  // namespace

#if !defined(__AVX512BF16__)
const ChannelKernels<float>& LOCKSTEP_CHANNEL_KERNELS(float) { return kKernels<float>; }
#endif
const ChannelKernels<BFloat16>& LOCKSTEP_CHANNEL_KERNELS(BFloat16) { return kKernels<BFloat16>; }

}  // namespace lockstep::kernels
