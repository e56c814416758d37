// Linear kernels, in every instruction set that this processor has, against a plain definition in float64;
// and the gradients of the definition against differences. Numbers have so few digits that no order of
// additions rounds: what is asked for is the definition's number, rounded once to bfloat16 where the result
// is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/linear_kernels.h"
#include "lockstep/kernels/internal/test_kernels.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(LinearKernels, linear_kernels)
const LinearKernels<BFloat16>& bf16_linear_kernels(BFloat16);

namespace {

using namespace test;

struct LinearCase {
  kernels::LinearShape shape;
  at::Tensor input, weight, bias, gradient;

  template <class Make>
  LinearCase(const kernels::LinearShape& s, const Make& make)
      : shape(s),
        input(make({s.batch, s.features})),
        weight(make({s.outputs, s.features})),
        bias(make({s.outputs})),
        gradient(make({s.batch, s.outputs})) {}

  void convert(at::ScalarType type) {
    for (at::Tensor* tensor : {&input, &weight, &bias, &gradient}) *tensor = tensor->to(type);
  }
};

struct LinearResults {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

LinearResults by_definition(const LinearCase& of) {
  LinearResults result{at::zeros_like(of.gradient), at::zeros_like(of.input), at::zeros_like(of.weight),
                       at::zeros_like(of.bias)};
  const auto x = of.input.accessor<double, 2>(), w = of.weight.accessor<double, 2>(),
             g = of.gradient.accessor<double, 2>();
  const auto bias = of.bias.accessor<double, 1>();
  auto y = result.output.accessor<double, 2>(), by_x = result.input_gradient.accessor<double, 2>(),
       by_w = result.weight_gradient.accessor<double, 2>();
  auto by_bias = result.bias_gradient.accessor<double, 1>();
  for (int64_t n = 0; n < of.shape.batch; ++n) {
    for (int64_t k = 0; k < of.shape.outputs; ++k) {
      y[n][k] += bias[k];
      by_bias[k] += g[n][k];
      for (int64_t c = 0; c < of.shape.features; ++c) {
        y[n][k] += x[n][c] * w[k][c];
        by_x[n][c] += g[n][k] * w[k][c];
        by_w[k][c] += g[n][k] * x[n][c];
      }
    }
  }
  return result;
}

template <class T>
LinearResults by_kernels(const kernels::LinearKernels<T>& kernels, const LinearCase& of) {
  const at::ScalarType type = of.input.scalar_type();
  LinearResults result{unwritten(of.gradient.sizes(), type), unwritten(of.input.sizes(), type),
                       unwritten(of.weight.sizes(), at::kFloat), unwritten(of.bias.sizes(), at::kFloat)};
  kernels.forward(of.shape, data<T>(of.input), data<T>(of.weight), data<T>(of.bias), data<T>(result.output));
  kernels.input_gradient(of.shape, data<T>(of.gradient), data<T>(of.weight), data<T>(result.input_gradient));
  kernels.weight_gradient(of.shape, data<T>(of.gradient), data<T>(of.input),
                          data<float>(result.weight_gradient));
  kernels.bias_gradient(of.shape, data<T>(of.gradient), data<float>(result.bias_gradient));
  return result;
}

template <class T, class Test>
void in_every_linear_set(Test&& test) {
  in_every_set(kernels::plain_linear_kernels(T{}), kernels::avx2_linear_kernels(T{}),
               kernels::avx512_linear_kernels(T{}), test);
  if constexpr (std::is_same_v<T, BFloat16>) {
    SCOPED_TRACE("with products of pairs");
    if (device::rounds_to_bfloat16()) test(kernels::bf16_linear_kernels({}));
  }
}

void check_linear(const kernels::LinearShape& shape) {
  SCOPED_TRACE("batch " + std::to_string(shape.batch) + ", features " + std::to_string(shape.features) +
               ", outputs " + std::to_string(shape.outputs) + ", shards " + std::to_string(shape.shards));
  const LinearCase exact(shape, few_digits);
  const LinearResults wanted = by_definition(exact);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    LinearCase of = exact;
    of.convert(type);
    in_every_linear_set<T>([&](const kernels::LinearKernels<T>& kernels) {
      const LinearResults ours = by_kernels(kernels, of);
      EXPECT_TRUE(is_exact(ours.output, wanted.output)) << "output of " << type;
      EXPECT_TRUE(is_exact(ours.input_gradient, wanted.input_gradient)) << "gradient by input of " << type;
      EXPECT_TRUE(is_exact(ours.weight_gradient, wanted.weight_gradient)) << "gradient by weight of " << type;
      EXPECT_TRUE(is_exact(ours.bias_gradient, wanted.bias_gradient)) << "gradient by bias of " << type;
      const at::Tensor sum = exact.weight.to(at::kFloat), without_bias = unwritten(of.gradient.sizes(), type);
      kernels.add_weight_gradient(shape, data<T>(of.gradient), data<T>(of.input), data<float>(sum));
      EXPECT_TRUE(is_exact(sum, exact.weight + wanted.weight_gradient))
          << "sum with gradient by weight of " << type;
      kernels.forward(shape, data<T>(of.input), data<T>(of.weight), nullptr, data<T>(without_bias));
      EXPECT_TRUE(is_exact(without_bias, wanted.output - exact.bias)) << "output without bias of " << type;
    });
  });
}

TEST(LinearKernels, AreExactForNumbersOfFewDigits) {
  torch::manual_seed(21);
  for (const int64_t batch : {1, 3, 8}) {
    for (const int64_t features : {1, 5, 16, 47, 97, 433}) {
      for (const int64_t outputs : {1, 4, 7, 21}) check_linear({batch, features, outputs});
    }
  }
  check_linear({12, 50, 7, 3});
  check_linear({8, 17, 33, 8});
  check_linear({33, 401, 19, 11});
  check_linear({35, 195, 6, 5});
}

// Two products at a time, in float: the sum of n products has the error of n additions at most.
bool is_near_sum(const at::Tensor& ours, const at::Tensor& wanted, const at::Tensor& sizes, int64_t count) {
  const double rounding = std::ldexp(1.0, ours.scalar_type() == at::kFloat ? -24 : -8);
  const at::Tensor most =
      sizes * (static_cast<double>(count + 2) * std::ldexp(1.0, -24)) + wanted.abs() * rounding;
  return (ours.to(at::kDouble) - wanted).abs().le(most).all().item<bool>();
}

TEST(LinearKernels, RoundOnlyInFloatAndAtTheEnd) {
  torch::manual_seed(26);
  for (const kernels::LinearShape& shape :
       {kernels::LinearShape{13, 131, 21}, {21, 433, 35, 7}, {20, 97, 10, 4}, {3, 1, 1, 3}, {1, 801, 3}}) {
    const LinearCase drawn(shape, random_floats);
    in_both_types([&](auto number, at::ScalarType type) {
      using T = decltype(number);
      LinearCase of = drawn;
      of.convert(type);
      LinearCase exact = of, sizes = of;
      exact.convert(at::kDouble);
      sizes.convert(at::kDouble);
      for (at::Tensor* tensor : {&sizes.input, &sizes.weight, &sizes.bias, &sizes.gradient})
        *tensor = tensor->abs();
      const LinearResults wanted = by_definition(exact), size = by_definition(sizes);
      in_every_linear_set<T>([&](const kernels::LinearKernels<T>& kernels) {
        const LinearResults ours = by_kernels(kernels, of);
        EXPECT_TRUE(is_near_sum(ours.output, wanted.output, size.output, shape.features)) << type;
        EXPECT_TRUE(
            is_near_sum(ours.input_gradient, wanted.input_gradient, size.input_gradient, shape.outputs))
            << type;
        EXPECT_TRUE(
            is_near_sum(ours.weight_gradient, wanted.weight_gradient, size.weight_gradient, shape.batch))
            << type;
        const at::Tensor sum = of.weight.to(at::kFloat).clone(), added = sum + ours.weight_gradient;
        kernels.add_weight_gradient(shape, data<T>(of.gradient), data<T>(of.input), data<float>(sum));
        EXPECT_TRUE(at::equal(sum, added)) << type;
      });
    });
  }
}

TEST(LinearKernels, GiveASampleTheSameBitsInAnyBatch) {
  torch::manual_seed(22);
  in_both_types([](auto number, at::ScalarType type) {
    using T = decltype(number);
    LinearCase of({13, 403, 21}, random_floats);
    of.convert(type);
    in_every_linear_set<T>([&](const kernels::LinearKernels<T>& kernels) {
      const LinearResults together = by_kernels(kernels, of);
      for (int64_t n = 0; n < of.shape.batch; ++n) {
        LinearCase alone = of;
        alone.shape.batch = 1;
        alone.input = of.input.narrow(0, n, 1);
        alone.gradient = of.gradient.narrow(0, n, 1);
        const LinearResults one = by_kernels(kernels, alone);
        EXPECT_TRUE(at::equal(one.output, together.output.narrow(0, n, 1)));
        EXPECT_TRUE(at::equal(one.input_gradient, together.input_gradient.narrow(0, n, 1)));
      }
    });
  });
}

void check_tree_of_shards(const kernels::LinearShape& shape) {
  const int64_t shards = shape.shards, samples = shape.batch / shards;
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    LinearCase of(shape, random_floats);
    of.convert(type);
    in_every_linear_set<T>([&](const kernels::LinearKernels<T>& kernels) {
      const auto of_shard = [&](int64_t shard) {
        LinearCase alone = of;
        alone.shape = {samples, shape.features, shape.outputs};
        alone.input = of.input.narrow(0, samples * shard, samples);
        alone.gradient = of.gradient.narrow(0, samples * shard, samples);
        return by_kernels(kernels, alone);
      };
      const LinearResults together = by_kernels(kernels, of);
      EXPECT_TRUE(at::equal(together.weight_gradient, tree_sum(0, shards, [&](int64_t shard) {
                              return of_shard(shard).weight_gradient;
                            })));
      EXPECT_TRUE(at::equal(together.bias_gradient, tree_sum(0, shards, [&](int64_t shard) {
                              return of_shard(shard).bias_gradient;
                            })));
    });
  });
}

TEST(LinearKernels, AddTheGradientsOfShardsInTheTree) {
  torch::manual_seed(23);
  check_tree_of_shards({20, 97, 21, 5});
  check_tree_of_shards({24, 401, 7, 8});
  check_tree_of_shards({32, 33, 6, 16});
}

TEST(LinearKernels, TheDefinitionsGradientsAreItsSlopes) {
  torch::manual_seed(24);
  const LinearCase of({3, 5, 4}, random_doubles);
  const LinearResults results = by_definition(of);
  const auto loss = [&] { return weighted_sum(by_definition(of).output, of.gradient); };
  EXPECT_TRUE(is_near(slopes(of.input, loss), results.input_gradient));
  EXPECT_TRUE(is_near(slopes(of.weight, loss), results.weight_gradient));
  EXPECT_TRUE(is_near(slopes(of.bias, loss), results.bias_gradient));
}

TEST(LinearKernels, TurnMatrices) {
  torch::manual_seed(25);
  in_both_types([](auto number, at::ScalarType type) {
    using T = decltype(number);
    for (const int64_t rows : {1, 3, 4, 16, 21, 40}) {
      for (const int64_t columns : {1, 4, 7, 16, 33}) {
        const at::Tensor matrices = at::randn({3, rows, columns}).to(type);
        in_every_linear_set<T>([&](const kernels::LinearKernels<T>& kernels) {
          const at::Tensor transposed = unwritten({3, columns, rows}, type);
          kernels.transpose(data<T>(matrices), 3, rows, columns, data<T>(transposed));
          EXPECT_TRUE(at::equal(transposed, matrices.transpose(1, 2)))
              << rows << " x " << columns << " of " << type;
        });
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::kernels
