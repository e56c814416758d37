// Convolutions for the tests of their kernels: every instruction set that this processor has, random numbers,
// and the definition in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/device/isa.h"
#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ConvolutionKernels, convolution_kernels)
const ConvolutionKernels<BFloat16>& bf16_convolution_kernels(BFloat16);
const ConvolutionKernels<BFloat16>& amx_convolution_kernels();

namespace test {

template <class T>
struct NamedKernels {
  std::string name;
  const ConvolutionKernels<T>* kernels;
};

template <class T>
std::vector<NamedKernels<T>> present_kernels() {
  std::vector<NamedKernels<T>> result{{"plain", &plain_convolution_kernels(T{})}};
  if (device::vector_unit() >= device::VectorUnit::avx2)
    result.push_back({"avx2", &avx2_convolution_kernels(T{})});
  if (device::vector_unit() >= device::VectorUnit::avx512)
    result.push_back({"avx512", &avx512_convolution_kernels(T{})});
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (device::rounds_to_bfloat16()) result.push_back({"bf16", &bf16_convolution_kernels({})});
    if (device::has_matrix_unit()) result.push_back({"amx", &amx_convolution_kernels()});
    result.push_back({"chosen", &convolution_kernels<T>()});
  }
  return result;
}

inline double value_of(double value) { return value; }
inline float value_of(float value) { return value; }
inline float value_of(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline void assign(float value, double& target) { target = value; }
inline void assign(float value, float& target) { target = value; }
inline void assign(float value, BFloat16& target) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  target.bits = static_cast<uint16_t>(bits >> 16);
}

template <class T>
std::vector<T> random_values(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1.0F, 1.0F);
  std::vector<T> result(static_cast<size_t>(count));
  for (T& value : result) assign(distribution(generator), value);
  return result;
}

inline std::string text(const ConvolutionShape& s) {
  std::string result;
  for (int64_t part : {s.batch, s.channels, s.height, s.width, s.filters, s.kernel_height, s.kernel_width,
                       s.padding_height, s.padding_width, s.stride_height, s.stride_width}) {
    result += std::to_string(part) + " ";
  }
  return result + (s.weight_channels_last ? "channels last" : "") + (s.depthwise ? "depthwise" : "");
}

inline int64_t input_size(const ConvolutionShape& s) { return s.batch * s.height * s.width * s.channels; }
inline int64_t output_size(const ConvolutionShape& s) {
  return s.batch * s.output_height() * s.output_width() * s.filters;
}
inline int64_t weight_size(const ConvolutionShape& s) {
  return s.filters * (s.depthwise ? 1 : s.channels) * s.kernel_height * s.kernel_width;
}

template <class T>
std::vector<float> values_of(const std::vector<T>& numbers) {
  std::vector<float> result;
  for (const T& number : numbers) result.push_back(value_of(number));
  return result;
}

/// Calls visit(place in the output, in the input, in the weight) for each product of the definition.
template <class Visit>
void each_product(const ConvolutionShape& s, Visit&& visit) {
  const int64_t taps = s.kernel_height * s.kernel_width;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t y = 0; y < s.output_height(); ++y)
      for (int64_t x = 0; x < s.output_width(); ++x)
        for (int64_t ky = 0; ky < s.kernel_height; ++ky)
          for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
            const int64_t row = y * s.stride_height + ky - s.padding_height;
            const int64_t column = x * s.stride_width + kx - s.padding_width;
            if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
            const int64_t output = ((n * s.output_height() + y) * s.output_width() + x) * s.filters;
            const int64_t input = ((n * s.height + row) * s.width + column) * s.channels;
            const int64_t tap = ky * s.kernel_width + kx;
            for (int64_t k = 0; s.depthwise && k < s.filters; ++k)
              visit(output + k, input + k, k * taps + tap);
            for (int64_t k = 0; !s.depthwise && k < s.filters; ++k)
              for (int64_t c = 0; c < s.channels; ++c) {
                visit(output + k, input + c,
                      s.weight_channels_last ? (k * taps + tap) * s.channels + c
                                             : (k * s.channels + c) * taps + tap);
              }
          }
}

/// Sums in double, and the sums of the magnitudes of what was added.
struct Sums {
  std::vector<double> value, magnitude;

  explicit Sums(int64_t count) : value(static_cast<size_t>(count)), magnitude(static_cast<size_t>(count)) {}
  void add(int64_t place, double term) {
    value[static_cast<size_t>(place)] += term;
    magnitude[static_cast<size_t>(place)] += std::abs(term);
  }
  /// Winograd's algorithm mixes neighbouring results, so an error may be as large as the largest magnitude
  /// allows.
  template <class T>
  void expect_near(const std::vector<T>& ours, double tolerance, const std::string& what) const {
    double largest = 1e-30, difference = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      largest = std::max(largest, magnitude[i]);
      difference = std::max(difference,
                            std::isfinite(value_of(ours[i])) ? std::abs(value_of(ours[i]) - value[i]) : 1e30);
    }
    EXPECT_LE(difference / largest, tolerance) << what;
  }
};

template <class T>
struct Case {
  ConvolutionShape shape;
  std::vector<T> input, weight, bias, gradient;

  explicit Case(const ConvolutionShape& s)
      : shape(s),
        input(random_values<T>(input_size(s), 1)),
        weight(random_values<T>(weight_size(s), 2)),
        bias(random_values<T>(s.filters, 3)),
        gradient(random_values<T>(output_size(s), 4)) {}
};

template <class T>
struct Reference {
  Sums output, input_gradient, weight_gradient, bias_gradient;

  explicit Reference(const Case<T>& c)
      : output(output_size(c.shape)),
        input_gradient(input_size(c.shape)),
        weight_gradient(weight_size(c.shape)),
        bias_gradient(c.shape.filters) {
    each_product(c.shape, [&](int64_t y, int64_t x, int64_t w) {
      const double from = value_of(c.input[static_cast<size_t>(x)]),
                   factor = value_of(c.weight[static_cast<size_t>(w)]);
      const double back = value_of(c.gradient[static_cast<size_t>(y)]);
      output.add(y, from * factor);
      input_gradient.add(x, back * factor);
      weight_gradient.add(w, back * from);
    });
    for (int64_t i = 0; i < output_size(c.shape); ++i) {
      output.add(i, value_of(c.bias[static_cast<size_t>(i % c.shape.filters)]));
      bias_gradient.add(i % c.shape.filters, value_of(c.gradient[static_cast<size_t>(i)]));
    }
  }
};

template <class T>
struct Results {
  std::vector<T> output, input_gradient;
  std::vector<float> weight_gradient, bias_gradient;

  Results(const ConvolutionKernels<T>& kernels, const Case<T>& c)
      : output(static_cast<size_t>(output_size(c.shape))),
        input_gradient(static_cast<size_t>(input_size(c.shape))),
        weight_gradient(static_cast<size_t>(weight_size(c.shape))),
        bias_gradient(static_cast<size_t>(c.shape.filters)) {
    kernels.forward(c.shape, c.input.data(), c.weight.data(), c.bias.data(),
                    {output.data(), c.shape.filters});
    kernels.input_gradient(c.shape, c.gradient.data(), c.weight.data(), input_gradient.data());
    kernels.weight_gradient(c.shape, c.gradient.data(), c.input.data(), weight_gradient.data(),
                            bias_gradient.data());
  }
};

}  // namespace test

}  // namespace lockstep::kernels
