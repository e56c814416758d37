// The text of the channel kernels, compiled once per instruction set; LOCKSTEP_CHANNEL_KERNELS names the function that returns them.
//
// Any channel count fills vectors: [rows, channels] is walked as one flat array in strides of lcm(channels, 16) values, and what belongs to
// a channel is repeated along a stride. Sums are kept for each place of a stride and folded at the end in a fixed order, so the bits do not
// depend on the width of the vectors.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "lockstep/nn/fused/channel_kernels.h"

namespace lockstep::nn::fused {
namespace {

inline float to_float(float value) { return value; }
inline float to_float(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline void store(float value, float& target) { target = value; }
// Round to nearest, ties to even; a NaN stays one, for its quiet bit is set.
inline void store(float value, BFloat16& target) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40;
  target.bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

constexpr int64_t kLanes = 16;

class Strides {
 public:
  Strides(int64_t rows, int64_t channels) : channels_(channels), size_(std::lcm(channels, kLanes)), count_(rows * channels) {}

  int64_t size() const { return size_; }

  std::vector<float> repeated(const float* values) const {
    std::vector<float> result(static_cast<size_t>(size_));
    for (int64_t i = 0; i < size_; i += channels_) std::copy(values, values + channels_, result.data() + i);
    return result;
  }

  /// work(begin, size): whole strides, then the rest.
  template <class Work>
  void each(Work&& work) const {
    int64_t begin = 0;
    for (; begin + size_ <= count_; begin += size_) work(begin, size_);
    if (begin < count_) work(begin, count_ - begin);
  }

  void fold(const std::vector<float>& places, float* sums) const {
    for (int64_t c = 0; c < channels_; ++c) {
      double sum = 0;
      for (int64_t i = c; i < size_; i += channels_) sum += places[static_cast<size_t>(i)];
      sums[c] = static_cast<float>(sum);
    }
  }

 private:
  int64_t channels_;
  int64_t size_;
  int64_t count_;
};

template <class T>
void moments(const T* input, int64_t rows, int64_t channels, float* mean, float* deviation) {
  const Strides strides(rows, channels);
  std::vector<float> sums(static_cast<size_t>(strides.size()));
  float* s = sums.data();
  strides.each([&](int64_t begin, int64_t size) {
    const T* x = input + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) s[i] += to_float(x[i]);
  });
  strides.fold(sums, mean);
  for (int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(rows);
  const std::vector<float> means = strides.repeated(mean);
  const float* m = means.data();
  std::fill(sums.begin(), sums.end(), 0.0F);
  strides.each([&](int64_t begin, int64_t size) {
    const T* x = input + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      const float delta = to_float(x[i]) - m[i];
      s[i] += delta * delta;
    }
  });
  strides.fold(sums, deviation);
}

template <bool relu, class T>
void transform_rows(const T* input, const Strides& strides, const float* a, const float* b, T* output) {
  strides.each([&](int64_t begin, int64_t size) {
    const T* x = input + begin;
    T* y = output + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      const float value = to_float(x[i]) * a[i] + b[i];
      store(relu ? (value < 0.0F ? 0.0F : value) : value, y[i]);
    }
  });
}

template <class T>
void transform(const T* input, int64_t rows, int64_t channels, const float* scale, const float* shift, bool relu, T* output) {
  const Strides strides(rows, channels);
  const std::vector<float> a = strides.repeated(scale);
  const std::vector<float> b = strides.repeated(shift);
  if (relu) {
    transform_rows<true>(input, strides, a.data(), b.data(), output);
  } else {
    transform_rows<false>(input, strides, a.data(), b.data(), output);
  }
}

template <bool relu, class T>
void gradient_sums_rows(const T* gradient, const T* input, const Strides& strides, const float* a, const float* b, const float* m, float* s, float* p) {
  strides.each([&](int64_t begin, int64_t size) {
    const T* x = input + begin;
    const T* dy = gradient + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      const float value = to_float(x[i]);
      const float g = relu && !(value * a[i] + b[i] > 0.0F) ? 0.0F : to_float(dy[i]);
      s[i] += g;
      p[i] += g * (value - m[i]);
    }
  });
}

template <class T>
void gradient_sums(const T* gradient, const T* input, int64_t rows, int64_t channels, const float* scale, const float* shift, const float* mean, bool relu,
                   float* sum, float* sum_of_products) {
  const Strides strides(rows, channels);
  const std::vector<float> a = strides.repeated(scale), b = strides.repeated(shift), m = strides.repeated(mean);
  std::vector<float> sums(static_cast<size_t>(strides.size())), products(static_cast<size_t>(strides.size()));
  if (relu) {
    gradient_sums_rows<true>(gradient, input, strides, a.data(), b.data(), m.data(), sums.data(), products.data());
  } else {
    gradient_sums_rows<false>(gradient, input, strides, a.data(), b.data(), m.data(), sums.data(), products.data());
  }
  strides.fold(sums, sum);
  strides.fold(products, sum_of_products);
}

template <bool relu, class T>
void input_gradient_rows(const T* gradient, const T* input, const Strides& strides, const float* a, const float* b, const float* m, const float* k, const float* o,
                         T* input_gradient) {
  strides.each([&](int64_t begin, int64_t size) {
    const T* x = input + begin;
    const T* dy = gradient + begin;
    T* dx = input_gradient + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      const float value = to_float(x[i]);
      const float g = relu && !(value * a[i] + b[i] > 0.0F) ? 0.0F : to_float(dy[i]);
      store(g * a[i] + (value - m[i]) * k[i] + o[i], dx[i]);
    }
  });
}

template <class T>
void input_gradient(const T* gradient, const T* input, int64_t rows, int64_t channels, const float* scale, const float* shift, const float* mean,
                    const float* slope, const float* offset, bool relu, T* input_gradient) {
  const Strides strides(rows, channels);
  const std::vector<float> a = strides.repeated(scale), b = strides.repeated(shift), m = strides.repeated(mean);
  const std::vector<float> k = strides.repeated(slope), o = strides.repeated(offset);
  if (relu) {
    input_gradient_rows<true>(gradient, input, strides, a.data(), b.data(), m.data(), k.data(), o.data(), input_gradient);
  } else {
    input_gradient_rows<false>(gradient, input, strides, a.data(), b.data(), m.data(), k.data(), o.data(), input_gradient);
  }
}

template <class T>
constexpr ChannelKernels<T> kKernels{&moments<T>, &transform<T>, &gradient_sums<T>, &input_gradient<T>};

}  // namespace

const ChannelKernels<float>& LOCKSTEP_CHANNEL_KERNELS(float) { return kKernels<float>; }
const ChannelKernels<BFloat16>& LOCKSTEP_CHANNEL_KERNELS(BFloat16) { return kKernels<BFloat16>; }

}  // namespace lockstep::nn::fused
