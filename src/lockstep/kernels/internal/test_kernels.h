// For tests of kernels against plain definitions: every instruction set that this processor has, both types
// of numbers, and numbers that need no rounding.
#pragma once

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/device/isa.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Calls test(T{}, type) for both types of numbers in memory.
template <class Test>
void in_both_types(Test&& test) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    visit_type(type, [&](auto number) { test(number, type); });
  }
}

/// Calls test(kernels) for each of the three sets that this processor supports.
template <class Kernels, class Test>
void in_every_set(const Kernels& plain, const Kernels& avx2, const Kernels& avx512, Test&& test) {
  const auto run = [&](const char* name, const Kernels& kernels) {
    SCOPED_TRACE(name);
    test(kernels);
  };
  run("plain", plain);
  if (device::vector_unit() >= device::VectorUnit::avx2) run("avx2", avx2);
  if (device::vector_unit() >= device::VectorUnit::avx512) run("avx512", avx512);
}

/// Multiples of 1/16 up to 4, which are exact in bfloat16 too.
inline at::Tensor few_digits(at::IntArrayRef sizes) {
  return at::randint(-64, 65, sizes, at::kDouble).div(16);
}

inline at::Tensor random_floats(at::IntArrayRef sizes) { return at::randn(sizes); }
inline at::Tensor random_doubles(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

/// Memory of which a kernel must write all.
inline at::Tensor unwritten(at::IntArrayRef sizes, at::ScalarType type) {
  return at::full(sizes, kNan, type);
}

/// Whether these are the expected float64 numbers, rounded once. The sign of a zero does not count.
inline bool is_exact(const at::Tensor& ours, const at::Tensor& wanted) {
  return at::allclose(ours.to(at::kDouble), wanted.to(ours.scalar_type()).to(at::kDouble), 0, 0,
                      /*equal_nan=*/true);
}

/// The slope of loss() along each of `values`, which loss() reads in each call.
template <class Loss>
at::Tensor slopes(const at::Tensor& values, const Loss& loss) {
  constexpr double kStep = 1e-5;
  const at::Tensor result = at::empty_like(values);
  double* value = data<double>(values);
  double* slope = data<double>(result);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double here = value[i];
    const auto loss_at = [&](double place) {
      value[i] = place;
      return loss();
    };
    const double above = loss_at(here + kStep), below = loss_at(here - kStep);
    slope[i] = (above - below) / (2 * kStep);
    value[i] = here;
  }
  return result;
}

inline bool is_near(const at::Tensor& slopes, const at::Tensor& gradient) {
  return at::allclose(slopes, gradient, 1e-6, 1e-6);
}

inline double weighted_sum(const at::Tensor& output, const at::Tensor& gradient) {
  return (output * gradient).sum().item<double>();
}

}  // namespace lockstep::kernels::test
