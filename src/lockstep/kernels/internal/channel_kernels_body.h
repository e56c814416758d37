// The text of the channel kernels, compiled once per instruction set; LOCKSTEP_CHANNEL_KERNELS is the name of
// the function that returns them.
//
// Vectors are full for any number of channels: [rows, channels] is read as one flat array in strides of
// lcm(channels, 16) values, and the values of a channel are repeated along a stride. Each position of a
// stride has its own sum. The sums are folded at the end in a fixed order, so the bits do not depend on the
// width of the vectors. The values of a position stay in registers.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "lockstep/kernels/internal/vectors.h"
#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {
namespace {

constexpr int kLanes = kernels::kWidest;
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

class Strides {
 public:
  Strides(int64_t rows, int64_t channels)
      : channels_(channels),
        size_(stride_of(channels)),
        whole_(rows * channels / size_),
        rest_(rows * channels % size_) {}

  int64_t size() const { return size_; }

  std::vector<float> repeated(const float* values) const {
    std::vector<float> result(static_cast<size_t>(size_));
    for (int64_t i = 0; i < size_; i += channels_) std::copy(values, values + channels_, result.data() + i);
    return result;
  }

  void fold(const std::vector<float>& places, float* sums) const {
    for (int64_t c = 0; c < channels_; ++c) {
      double sum = 0;
      for (int64_t i = c; i < size_; i += channels_) sum += places[static_cast<size_t>(i)];
      sums[c] = static_cast<float>(sum);
    }
  }

  /// Calls kernel.run<vectors>(place, begin, strides, size) for blocks of a stride's vectors, at most kMost
  /// wide, over the number of strides that the first-level cache can contain; then kernel.run_rest(begin,
  /// count) for the values after the last whole stride.
  template <int kMost, class Kernel>
  void each(const Kernel& kernel) const {
    const int64_t chunk = std::max<int64_t>(1, 2048 / size_);
    for (int64_t stride = 0; stride < whole_; stride += chunk) {
      each_block<kMost>(size_ / kLanes, [&](int64_t vector, auto count) {
        kernel.template run<count>(vector * kLanes, stride * size_ + vector * kLanes,
                                   std::min(chunk, whole_ - stride), size_);
      });
    }
    if (rest_ > 0) kernel.run_rest(whole_ * size_, rest_);
  }

 private:
  template <int kMost, class Work>
  static void each_block(int64_t vectors, Work&& work) {
    const int64_t blocks = (vectors + kMost - 1) / kMost;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = vectors * block / blocks;
      with_constant<kMost>(vectors * (block + 1) / blocks - begin, [&](auto count) { work(begin, count); });
    }
  }

  template <int kMost, class Work>
  static void with_constant(int64_t value, Work&& work) {
    if (value == kMost) return work(std::integral_constant<int, kMost>{});
    if constexpr (kMost > 1) with_constant<kMost - 1>(value, work);
  }

  // Not std::lcm: with -O2 -mavx512dq, g++ 12 gives -16 for lcm(1, 16) here.
  static int64_t stride_of(int64_t channels) {
    int64_t result = channels;
    while (result % 16 != 0) result += channels;
    return result;
  }

  int64_t channels_;
  int64_t size_;
  int64_t whole_;
  int64_t rest_;
};

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
  std::vector<float> sums(static_cast<size_t>(strides.size()));
  strides.each<8>(Sum<T>{input, sums.data()});
  strides.fold(sums, mean);
  for (int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(rows);
  const std::vector<float> means = strides.repeated(mean);
  std::fill(sums.begin(), sums.end(), 0.0F);
  strides.each<kRegisters / 4>(SumOfSquares<T>{input, means.data(), sums.data()});
  strides.fold(sums, deviation);
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
  const std::vector<float> a = strides.repeated(scale);
  const std::vector<float> b = strides.repeated(shift);
  constexpr int kMost = kRegisters / 4;
  if (relu) {
    strides.each<kMost>(Transform<true, T>{input, a.data(), b.data(), output});
  } else {
    strides.each<kMost>(Transform<false, T>{input, a.data(), b.data(), output});
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
  const std::vector<float> a = strides.repeated(scale), b = strides.repeated(shift),
                           m = strides.repeated(mean);
  std::vector<float> sums(static_cast<size_t>(strides.size())), products(static_cast<size_t>(strides.size()));
  constexpr int kMost = kRegisters / 6;
  if (relu) {
    strides.each<kMost>(
        GradientSums<true, T>{gradient, input, a.data(), b.data(), m.data(), sums.data(), products.data()});
  } else {
    strides.each<kMost>(
        GradientSums<false, T>{gradient, input, a.data(), b.data(), m.data(), sums.data(), products.data()});
  }
  strides.fold(sums, sum);
  strides.fold(products, sum_of_products);
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
  const std::vector<float> a = strides.repeated(scale), b = strides.repeated(shift),
                           m = strides.repeated(mean);
  const std::vector<float> k = strides.repeated(slope), o = strides.repeated(offset);
  constexpr int kMost = kRegisters / 6;
  if (relu) {
    strides.each<kMost>(InputGradient<true, T>{gradient, input, a.data(), b.data(), m.data(), k.data(),
                                               o.data(), input_gradient});
  } else {
    strides.each<kMost>(InputGradient<false, T>{gradient, input, a.data(), b.data(), m.data(), k.data(),
                                                o.data(), input_gradient});
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
