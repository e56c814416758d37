#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/fused_relu.h"
#include "lockstep/kernels/relu_kernels.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ReluKernels, relu_kernels)

namespace {

using Tensors = std::vector<at::Tensor>;

/// The output, then the gradients by the inputs.
template <class Function>
Tensors passes(const Tensors& inputs, Function function) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.detach().clone(at::MemoryFormat::Preserve).requires_grad_());
  const at::Tensor output = function(leaves);
  torch::manual_seed(3);
  output.backward(at::randn_like(output, output.options().memory_format(at::MemoryFormat::Contiguous)));
  Tensors results{output.detach()};
  for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

template <class Ours, class Engine>
void compare(const Tensors& inputs, Ours ours, Engine engine) {
  const Tensors expected = passes(inputs, engine), found = passes(inputs, ours);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i], expected[i])) << i << " of " << inputs.front().sizes();
}

Tensors images(at::ScalarType type, std::initializer_list<int64_t> channels) {
  Tensors result;
  for (const int64_t count : channels)
    result.push_back(at::randn({2, count, 5, 3}).to(type).contiguous(at::MemoryFormat::ChannelsLast));
  return result;
}

TEST(FusedRelu, GivesWhatTheEngineGives) {
  torch::manual_seed(2);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t count : {1, 3, 16, 37}) {
      compare(
          images(type, {count}), [](const Tensors& x) { return fused_relu(x[0], false); },
          [](const Tensors& x) { return at::relu(x[0]); });
      compare(
          images(type, {count, count}), [](const Tensors& x) { return add_relu(x[0], x[1]); },
          [](const Tensors& x) { return at::relu(x[0] + x[1]); });
      compare(
          images(type, {count, 1, 20}), [](const Tensors& x) { return concatenate_relu(x, {}); },
          [](const Tensors& x) { return at::cat(x, 1).relu(); });
    }
  }
}

TEST(FusedRelu, MeetsTheOperatorsInAScope) {
  torch::manual_seed(2);
  const auto in_place = [](const Tensors& x) {
    at::Tensor product = x[0] * 2;
    return product.relu_() * 3;
  };
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const Tensors inputs = images(type, {5});
    const Tensors expected = passes(inputs, in_place);
    const DirectKernels scope(true);
    const Tensors found = passes(inputs, in_place);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i]));
    EXPECT_TRUE(at::equal(at::relu(inputs[0]), at::clamp_min(inputs[0], 0)));
  }
}

// Backward writes into the gradient that it is given, but only if nobody else has it.
TEST(FusedRelu, LeavesAGradientThatOthersHave) {
  const auto functions = {+[](const at::Tensor& x) { return fused_relu(x, false); },
                          +[](const at::Tensor& x) { return add_relu(x, x * 2); }};
  for (const auto& function : functions) {
    at::Tensor x = images(at::kFloat, {20}).front().requires_grad_();
    const at::Tensor given = images(at::kFloat, {20}).front(), copy = given.clone(), part = given[0];
    function(x).backward(given);
    EXPECT_TRUE(at::equal(given, copy)) << "the caller's";

    const at::Tensor output = function(x);
    at::Tensor seen;
    output.register_hook([&](const at::Tensor& gradient) { seen = gradient; });
    (output * given + output * copy).sum().backward();
    EXPECT_TRUE(at::equal(seen, given + copy)) << "a hook's";
  }
}

TEST(FusedRelu, LetsNaNPass) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor input = at::full({3, 7}, -std::numeric_limits<float>::quiet_NaN()).to(type);
    EXPECT_TRUE(fused_relu(input, false).isnan().all().item<bool>());
    EXPECT_EQ(fused_relu(at::full({3, 7}, -std::numeric_limits<float>::infinity()).to(type), false)
                  .abs()
                  .sum()
                  .item<float>(),
              0);
  }
}

template <class T>
void compare_sets(at::ScalarType type) {
  const at::Tensor a = at::randn({53}).to(type), b = at::randn({53}).to(type);
  const auto results = [&](const kernels::ReluKernels<T>& set) {
    const at::Tensor output = at::empty_like(a), gradient = at::empty_like(a), sum = at::empty_like(a);
    set.relu(1, 53, {data<T>(a), 0}, {data<T>(output), 0});
    set.relu_gradient(1, 53, {data<T>(b), 0}, {data<T>(output), 0}, {data<T>(gradient), 0});
    set.add_relu(53, data<T>(a), data<T>(b), data<T>(sum));
    return at::cat({output, gradient, sum});
  };
  const at::Tensor plain = results(kernels::plain_relu_kernels(T{}));
  if (device::vector_unit() >= device::VectorUnit::avx2) {
    EXPECT_TRUE(at::equal(plain, results(kernels::avx2_relu_kernels(T{}))));
  }
  if (device::vector_unit() >= device::VectorUnit::avx512) {
    EXPECT_TRUE(at::equal(plain, results(kernels::avx512_relu_kernels(T{}))));
  }
}

TEST(FusedRelu, EveryInstructionSetGivesTheSameBits) {
  torch::manual_seed(4);
  compare_sets<float>(at::kFloat);
  compare_sets<kernels::BFloat16>(at::kBFloat16);
}

}  // namespace
}  // namespace lockstep::kernels
