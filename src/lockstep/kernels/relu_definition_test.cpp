// ReLU kernels, in every instruction set that this processor has, against a plain definition in float64.
// Numbers have so few digits that no order of additions rounds: what is asked for is the definition's number,
// rounded once to bfloat16 where the result is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/relu_kernels.h"
#include "lockstep/kernels/internal/test_kernels.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ReluKernels, relu_kernels)

namespace {

using namespace test;

/// Numbers of few digits with NaN, infinities and zeros of both signs among them.
at::Tensor awkward_numbers(at::IntArrayRef sizes) {
  const at::Tensor result = few_digits(sizes), line = result.view({-1});
  int64_t first = 0;
  for (const double value : {kNan, -kInfinity, kInfinity, -0.0, 0.0})
    line.slice(0, first++, line.numel(), 11).fill_(value);
  return result;
}

/// A part of wider rows, as concatenations have it.
struct WideRows {
  static constexpr int64_t kBeyond = 5;
  at::Tensor wide, part;

  WideRows(int64_t rows, int64_t columns, at::ScalarType type)
      : wide(unwritten({rows, columns + kBeyond}, type)), part(wide.narrow(1, 0, columns)) {}

  template <class T>
  kernels::Rows<T> of() const {
    return {data<T>(wide), wide.size(1)};
  }
  bool is_alone_written() const { return wide.narrow(1, part.size(1), kBeyond).isnan().all().item<bool>(); }
};

template <class T>
kernels::Rows<const T> dense(const at::Tensor& rows) {
  return {data<T>(rows), rows.size(1)};
}

void check_relu(int64_t rows, int64_t columns) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
  const at::Tensor a = awkward_numbers({rows, columns}), b = few_digits({rows, columns});
  const at::Tensor wanted = a.masked_fill(a.lt(0), 0), wanted_gradient = b.masked_fill(wanted.eq(0), 0),
                   wanted_sum = (a + b).masked_fill((a + b).lt(0), 0);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    const at::Tensor own_a = a.to(type), own_b = b.to(type);
    in_every_set(kernels::plain_relu_kernels(T{}), kernels::avx2_relu_kernels(T{}),
                 kernels::avx512_relu_kernels(T{}), [&](const kernels::ReluKernels<T>& kernels) {
                   const WideRows output(rows, columns, type), gradient(rows, columns, type);
                   const at::Tensor sum = unwritten({rows, columns}, type), in_place = own_a.clone();
                   kernels.relu(rows, columns, dense<T>(own_a), output.of<T>());
                   kernels.relu(rows, columns, dense<T>(in_place), {data<T>(in_place), columns});
                   kernels.relu_gradient(rows, columns, dense<T>(own_b), output.of<const T>(),
                                         gradient.of<T>());
                   kernels.add_relu(rows * columns, data<T>(own_a), data<T>(own_b), data<T>(sum));
                   EXPECT_TRUE(is_exact(output.part, wanted)) << "output of " << type;
                   EXPECT_TRUE(is_exact(in_place, wanted)) << "output in place of " << type;
                   EXPECT_TRUE(is_exact(gradient.part, wanted_gradient)) << "gradient of " << type;
                   EXPECT_TRUE(is_exact(sum, wanted_sum)) << "of a sum of " << type;
                   EXPECT_TRUE(output.is_alone_written() && gradient.is_alone_written());
                 });
  });
}

TEST(ReluKernels, FollowTheDefinition) {
  torch::manual_seed(31);
  for (const int64_t columns : {1, 3, 7, 8, 15, 16, 17, 33, 255, 256, 257, 530}) {
    for (const int64_t rows : {1, 3}) check_relu(rows, columns);
  }
}

}  // namespace
}  // namespace lockstep::kernels
