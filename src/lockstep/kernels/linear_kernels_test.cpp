#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/linear_kernels.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(LinearKernels, linear_kernels)

namespace {

using Values = std::vector<float>;

Values random_numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1.0F, 1.0F);
  Values result(static_cast<size_t>(count));
  for (float& value : result) value = distribution(generator);
  return result;
}

struct KernelResults {
  Values output, input_gradient, weight_gradient, bias_gradient;
};

struct KernelCase {
  LinearShape shape;
  Values input, weight, bias, gradient;

  explicit KernelCase(const LinearShape& s)
      : shape(s),
        input(random_numbers(s.batch * s.features, 1)),
        weight(random_numbers(s.outputs * s.features, 2)),
        bias(random_numbers(s.outputs, 3)),
        gradient(random_numbers(s.batch * s.outputs, 4)) {}

  KernelResults empty() const {
    return {Values(gradient.size()), Values(input.size()), Values(weight.size()), Values(bias.size())};
  }

  KernelResults by(const LinearKernels<float>& kernels) const {
    KernelResults results = empty();
    kernels.forward(shape, input.data(), weight.data(), bias.data(), results.output.data());
    kernels.input_gradient(shape, gradient.data(), weight.data(), results.input_gradient.data());
    kernels.weight_gradient(shape, gradient.data(), input.data(), results.weight_gradient.data());
    kernels.bias_gradient(shape, gradient.data(), results.bias_gradient.data());
    return results;
  }

  void expect_same_bits_added(const LinearKernels<float>& kernels, const Values& weight_gradient) const {
    Values sum = weight, wanted = weight;
    kernels.add_weight_gradient(shape, gradient.data(), input.data(), sum.data());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += weight_gradient[i];
    EXPECT_EQ(sum, wanted);
  }

  KernelResults by_definition() const {
    KernelResults results = empty();
    const auto at = [](auto& values, int64_t row, int64_t columns, int64_t column) -> auto& {
      return values[static_cast<size_t>(row * columns + column)];
    };
    for (int64_t n = 0; n < shape.batch; ++n) {
      for (int64_t k = 0; k < shape.outputs; ++k) {
        const float back = at(gradient, n, shape.outputs, k);
        double sum = at(bias, 0, 0, k);
        for (int64_t c = 0; c < shape.features; ++c) {
          sum += static_cast<double>(at(input, n, shape.features, c)) * at(weight, k, shape.features, c);
          at(results.input_gradient, n, shape.features, c) += back * at(weight, k, shape.features, c);
          at(results.weight_gradient, k, shape.features, c) += back * at(input, n, shape.features, c);
        }
        at(results.output, n, shape.outputs, k) = static_cast<float>(sum);
        at(results.bias_gradient, 0, 0, k) += back;
      }
    }
    return results;
  }
};

void expect_near(const Values& ours, const Values& wanted, const std::string& what) {
  double difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    difference = std::max(difference, static_cast<double>(std::abs(ours[i] - wanted[i])));
  EXPECT_LE(difference, 2e-5) << what;
}

TEST(LinearKernels, FollowTheDefinitionInEverySet) {
  struct Set {
    std::string name;
    bool present;
    const LinearKernels<float>* kernels;
  };
  const Set sets[]{
      {"plain", true, &plain_linear_kernels(0.0F)},
      {"avx2", device::vector_unit() >= device::VectorUnit::avx2, &avx2_linear_kernels(0.0F)},
      {"avx512", device::vector_unit() >= device::VectorUnit::avx512, &avx512_linear_kernels(0.0F)}};
  for (const int64_t batch : {1, 3, 4, 8, 13}) {
    for (const int64_t features : {1, 5, 16, 47, 48, 97, 131, 433}) {
      for (const int64_t outputs : {1, 4, 7, 10, 16, 21}) {
        const KernelCase c({batch, features, outputs});
        const KernelResults wanted = c.by_definition();
        for (const Set& set : sets) {
          if (!set.present) continue;
          const KernelResults ours = c.by(*set.kernels);
          const std::string what = set.name + ": " + std::to_string(batch) + " " + std::to_string(features) +
                                   " " + std::to_string(outputs);
          expect_near(ours.output, wanted.output, what + " output");
          expect_near(ours.input_gradient, wanted.input_gradient, what + " gradient by input");
          expect_near(ours.weight_gradient, wanted.weight_gradient, what + " gradient by weight");
          expect_near(ours.bias_gradient, wanted.bias_gradient, what + " gradient by bias");
          c.expect_same_bits_added(*set.kernels, ours.weight_gradient);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
