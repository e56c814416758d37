#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/pooling.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/direct_pooling.h"
#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/pool_kernels.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(PoolKernels, pool_kernels)

namespace {

struct PoolPasses {
  at::Tensor output, gradient;
};

PoolPasses passes(const torch::nn::MaxPool2dOptions& options, const at::Tensor& input) {
  const at::Tensor leaf = input.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
  const at::Tensor output = torch::nn::MaxPool2d(options)->forward(leaf);
  torch::manual_seed(3);
  output.backward(at::randn_like(output));
  return {output.detach(), leaf.grad()};
}

void compare(const torch::nn::MaxPool2dOptions& options, const at::Tensor& input) {
  const at::Tensor ordered = input.contiguous(at::MemoryFormat::ChannelsLast);
  const PoolPasses engine = passes(options, ordered);
  const DirectKernels scope(true);
  const PoolPasses ours = passes(options, ordered);
  SCOPED_TRACE(c10::str(input.sizes(), " ", input.scalar_type()));
  EXPECT_TRUE(at::equal(ours.output, engine.output));
  EXPECT_EQ(ours.gradient.scalar_type(), engine.gradient.scalar_type());
  // Up to four numbers are added, in another order.
  EXPECT_TRUE(at::allclose(ours.gradient.to(at::kDouble), engine.gradient.to(at::kDouble), 1e-2,
                           input.scalar_type() == at::kFloat ? 1e-6 : 3e-2));
}

TEST(PoolKernels, GiveWhatTheEngineGives) {
  torch::manual_seed(11);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t channels : {1, 3, 16, 20, 37, 40}) {
      const bool after_relu = channels == 40;
      const at::Tensor drawn = at::randn({2, channels, 11, 14}).to(type),
                       input = after_relu ? drawn.relu() : drawn;
      compare(torch::nn::MaxPool2dOptions(2).stride(2), input);
      compare(torch::nn::MaxPool2dOptions(3).stride(2).ceil_mode(true), input);
      compare(torch::nn::MaxPool2dOptions(3).stride(2).padding(1), input);
      compare(torch::nn::MaxPool2dOptions({5, 2}).stride({1, 3}).padding({2, 0}), input);
      compare(torch::nn::MaxPool2dOptions(2).stride(3).ceil_mode(true), input);
      compare(torch::nn::MaxPool2dOptions(2).dilation(2), input);
      compare(torch::nn::MaxPool2dOptions({11, 7}), input);
      compare(torch::nn::MaxPool2dOptions({1, 2}), input);
    }
    compare(torch::nn::MaxPool2dOptions(3), at::zeros({1, 8, 3, 3}).to(type));
  }
}

TEST(PoolKernels, TakeTheFirstOfEqualsAndKeepNaN) {
  const DirectKernels scope(true);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t channels : {4, 40}) {
      for (const double sign : {1.0, -1.0}) {
        at::Tensor input = at::ones({1, channels, 4, 4}).to(type);
        input.select(3, 1).select(2, 0).fill_(std::copysign(std::numeric_limits<double>::quiet_NaN(), sign));
        const PoolPasses ours =
            passes(torch::nn::MaxPool2dOptions(2), input.contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_EQ(ours.output.isnan().sum().item<int64_t>(), channels) << type << ", sign " << sign;
        EXPECT_TRUE(ours.gradient.select(2, 2).select(2, 2).ne(0).all().item<bool>());
      }
    }
  }
}

TEST(PoolKernels, AReluBeforeOrAfterIsTheSame) {
  torch::manual_seed(13);
  const Window window{3, 2, 1};
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor input =
        (at::randn({2, 40, 9, 8}) - 1).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor a = input.detach().clone(at::MemoryFormat::Preserve).requires_grad_(),
                     b = input.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
    const at::Tensor before = at::max_pool2d(at::relu(a), 3, 2, 1),
                     joined = *direct_max_pool(b, window, window, true);
    const at::Tensor gradient = at::randn_like(before);
    before.backward(gradient);
    joined.backward(gradient);
    EXPECT_TRUE(at::equal(before, joined));
    EXPECT_TRUE(at::allclose(a.grad().to(at::kDouble), b.grad().to(at::kDouble), 1e-2,
                             type == at::kFloat ? 1e-6 : 3e-2));
  }
}

template <class T>
void compare_sets(at::ScalarType type, const kernels::PoolShape& shape) {
  const at::Tensor input = at::randn({shape.batch, shape.height, shape.width, shape.channels}).to(type);
  const at::Tensor gradient =
      at::randn({shape.batch, shape.output_height, shape.output_width, shape.channels}).to(type);
  const auto results = [&](const kernels::PoolKernels<T>& set) {
    const at::Tensor output = at::empty_like(gradient), input_gradient = at::empty_like(input);
    std::vector<uint8_t> largest(static_cast<size_t>(gradient.numel()));
    set.max_pool(shape, data<T>(input), data<T>(output), largest.data());
    set.max_pool_gradient(shape, data<T>(gradient), largest.data(), data<T>(input_gradient));
    return at::cat({output.flatten(), input_gradient.flatten()});
  };
  const at::Tensor plain = results(kernels::plain_pool_kernels(T{}));
  if (device::vector_unit() >= device::VectorUnit::avx2) {
    EXPECT_TRUE(at::equal(plain, results(kernels::avx2_pool_kernels(T{}))));
  }
  if (device::vector_unit() >= device::VectorUnit::avx512) {
    EXPECT_TRUE(at::equal(plain, results(kernels::avx512_pool_kernels(T{}))));
  }
}

TEST(PoolKernels, EveryInstructionSetGivesTheSameBits) {
  torch::manual_seed(12);
  for (const bool relu : {false, true}) {
    for (const kernels::PoolShape& shape :
         {kernels::PoolShape{2, 21, 9, 9, 4, 4, 3, 3, 2, 2, 0, 0, relu},
          kernels::PoolShape{2, 21, 8, 9, 4, 3, 2, 3, 2, 3, 0, 0, relu},
          kernels::PoolShape{1, 1, 7, 5, 4, 3, 3, 3, 2, 2, 1, 1, relu},
          kernels::PoolShape{1, 37, 11, 14, 11, 5, 5, 2, 1, 3, 2, 0, relu}}) {
      compare_sets<float>(at::kFloat, shape);
      compare_sets<kernels::BFloat16>(at::kBFloat16, shape);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
