// The scope and its layers against the engine's operators, values and gradients.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/direct_linear.h"
#include "lockstep/kernels/gradient_target.h"

namespace lockstep::kernels {
namespace {

struct Passes {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // of the input, then of the parameters
};

template <class Forward>
Passes passes(const at::Tensor& input, const std::vector<at::Tensor>& parameters, Forward forward) {
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  const at::Tensor leaf = input.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
  at::Tensor output = forward(leaf);
  torch::manual_seed(9);
  output.backward(at::randn_like(output, output.options().memory_format(at::MemoryFormat::Contiguous)));
  Passes result{output.detach(), {leaf.grad()}};
  for (const at::Tensor& parameter : parameters) result.gradients.push_back(parameter.grad().clone());
  return result;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).abs().max() / b.to(at::kDouble).abs().max().clamp_min(1e-6))
      .item<double>();
}

void expect_near(const Passes& ours, const Passes& engine, double tolerance) {
  EXPECT_EQ(ours.output.scalar_type(), engine.output.scalar_type());
  EXPECT_LT(difference(ours.output, engine.output), tolerance);
  ASSERT_EQ(ours.gradients.size(), engine.gradients.size());
  for (size_t i = 0; i < ours.gradients.size(); ++i) {
    EXPECT_EQ(ours.gradients[i].sizes(), engine.gradients[i].sizes());
    EXPECT_LT(difference(ours.gradients[i], engine.gradients[i]), tolerance) << "gradient " << i;
  }
}

void compare_convolution(const torch::nn::Conv2dOptions& options, at::IntArrayRef input_shape,
                         double tolerance = 2e-4, at::MemoryFormat format = at::MemoryFormat::ChannelsLast) {
  torch::manual_seed(4);
  const torch::nn::Conv2d module(options);
  const at::Tensor input = at::randn(input_shape).contiguous(format);
  const auto forward = [&](const at::Tensor& leaf) { return torch::nn::Conv2d(module)->forward(leaf); };
  const Passes engine = passes(input, module->parameters(), forward);
  const DirectKernels scope(true);
  const Passes ours = passes(input, module->parameters(), forward);
  expect_near(ours, engine, tolerance);
  EXPECT_TRUE(ours.output.is_contiguous(format));
}

void compare_linear(int64_t outputs, bool bias, const at::Tensor& input, double tolerance = 1e-5) {
  torch::manual_seed(4);
  torch::nn::Linear module(torch::nn::LinearOptions(input.numel() / input.size(0), outputs).bias(bias));
  const auto forward = [&](const at::Tensor& leaf) { return linear(*module, leaf); };
  const Passes engine = passes(input, module->parameters(), forward);
  const DirectKernels scope(true);
  expect_near(passes(input, module->parameters(), forward), engine, tolerance);
}

TEST(DirectKernels, GiveWhatTheEngineGives) {
  compare_convolution(torch::nn::Conv2dOptions(20, 20, 3).padding(1), {4, 20, 24, 24});
  compare_convolution(torch::nn::Conv2dOptions(1, 20, 5), {4, 1, 28, 28});
  compare_convolution(torch::nn::Conv2dOptions(20, 50, 5).bias(false), {8, 20, 12, 12});
  compare_convolution(torch::nn::Conv2dOptions(7, 5, {3, 1}).padding({2, 0}), {1, 7, 9, 11});
}

TEST(DirectKernels, HandTheLayoutOn) {
  compare_convolution(torch::nn::Conv2dOptions(20, 20, 3).padding(1), {4, 20, 24, 24}, 2e-4,
                      at::MemoryFormat::Contiguous);
  compare_convolution(torch::nn::Conv2dOptions(3, 20, 5), {4, 3, 28, 28}, 2e-4, at::MemoryFormat::Contiguous);
}

TEST(DirectKernels, TakeAFilterForEachChannel) {
  for (int64_t stride : {1, 2}) {
    const auto options = torch::nn::Conv2dOptions(40, 40, 3).groups(40).padding(1).stride(stride);
    compare_convolution(options, {4, 40, 14, 13});
    compare_convolution(options, {4, 40, 14, 13}, 2e-4, at::MemoryFormat::Contiguous);
  }
}

TEST(DirectKernels, LeaveToTheEngineWhatDoesNotFit) {
  compare_convolution(torch::nn::Conv2dOptions(8, 8, 3).stride(2), {2, 8, 9, 9});
  compare_convolution(torch::nn::Conv2dOptions(8, 8, 3).dilation(2), {2, 8, 9, 9});
  compare_convolution(torch::nn::Conv2dOptions(8, 8, 3).groups(2), {2, 8, 9, 9});
  compare_convolution(torch::nn::Conv2dOptions(8, 8, 3).padding(4), {2, 8, 9, 9});
}

TEST(DirectKernels, UnderAutocastComputeInBfloat16AndKeepGradientsOfWeightsInFloat) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(false);
  compare_convolution(torch::nn::Conv2dOptions(20, 20, 3).padding(1), {4, 20, 24, 24}, 3e-2);
  compare_convolution(torch::nn::Conv2dOptions(1, 20, 5), {4, 1, 28, 28}, 3e-2);
  compare_linear(10, true, at::randn({16, 20, 6, 7}).contiguous(at::MemoryFormat::ChannelsLast), 3e-2);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

// The engine of LibTorch 2.15 leaves these gradients as it finds the memory; so --kernels engine takes ours
// too.
TEST(DirectKernels, GradientsOfKernelLinesThatLieOnPaddingAreZeroInBfloat16) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(false);
  for (const bool enabled : {false, true}) {
    const DirectKernels scope(enabled);
    for (int trial = 0; trial < 10; ++trial) {
      for (const int64_t bytes : {1 << 12, 1 << 16, 1 << 20, 1 << 22}) at::full({bytes / 4}, 7.0);
      const at::Tensor weight = at::randn({64, 32, 3, 3}).requires_grad_();
      const at::Tensor output = at::conv2d(at::randn({1, 32, 2, 2}), weight, {}, 2, 1);
      output.backward(at::ones_like(output));
      EXPECT_EQ(weight.grad().select(2, 0).abs().max().item<float>(), 0);
      EXPECT_EQ(weight.grad().select(3, 0).abs().max().item<float>(), 0);
      EXPECT_GT(weight.grad().abs().max().item<float>(), 0);
    }
  }
  at::autocast::set_autocast_cache_enabled(true);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

TEST(DirectKernels, TheInnerScopeCounts) {
  EXPECT_FALSE(DirectKernels::enabled());
  const DirectKernels outer(true);
  {
    const DirectKernels inner(false);
    EXPECT_FALSE(DirectKernels::enabled());
  }
  EXPECT_TRUE(DirectKernels::enabled());
}

TEST(DirectLinear, GivesWhatTheEngineGives) {
  for (const int64_t outputs : {1, 2, 10, 31, 32, 40})
    compare_linear(outputs, outputs % 2 == 0, at::randn({5, 37}));
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    compare_linear(10, true, at::randn({16, 20, 6, 7}).contiguous(format));
    compare_linear(10, true, at::randn({1, 3, 1, 5}).contiguous(format));
    compare_linear(3, false, at::randn({2, 1, 5, 5}).contiguous(format));
    compare_linear(50, true, at::randn({8, 6, 4, 4}).contiguous(format));
    compare_linear(50, true, at::randn({40, 6, 4, 4}).contiguous(format));
  }
  compare_linear(10, true, at::randn({4, 20, 6, 14}).narrow(3, 0, 7));
}

/// Weights in a flat tensor with room before and after, and a gradient that is wanted in another one.
struct InPlace {
  at::Tensor flat = at::randn({7 + 40 * 21 + 3}), gradients = at::randn_like(flat),
             before = gradients.clone();
  torch::nn::Linear module{torch::nn::LinearOptions(21, 40)};
  DirectKernels scope{true};

  InPlace() { module->weight.set_data(weight_part(flat)); }
  static at::Tensor weight_part(const at::Tensor& whole) {
    return whole.narrow(0, 7, 40 * 21).view({40, 21});
  }

  /// backward of the layer, taken `uses` times
  void run(const at::Tensor& input, int64_t uses) {
    module->zero_grad();
    at::Tensor sum = linear(*module, input).square().sum();
    for (int64_t use = 1; use < uses; ++use) sum = sum + linear(*module, input).sum();
    sum.backward();
  }
};

TEST(GradientTarget, GetsTheBitsThatCopiesOrSumsWouldHave) {
  torch::manual_seed(4);
  const at::Tensor input = at::randn({8, 21});
  for (const bool add : {false, true}) {
    InPlace ours;
    ours.run(input, 1);
    const at::Tensor wanted = ours.module->weight.grad().clone(), bias = ours.module->bias.grad().clone();
    const GradientTarget target(ours.flat, ours.gradients, add);
    ours.run(input, 1);
    EXPECT_FALSE(ours.module->weight.grad().defined());
    EXPECT_TRUE(at::equal(ours.module->bias.grad(), bias));
    EXPECT_TRUE(target.has(7));
    EXPECT_FALSE(target.has(0));
    if (add) {
      InPlace::weight_part(ours.before).add_(wanted);
    } else {
      InPlace::weight_part(ours.before).copy_(wanted);
    }
    EXPECT_TRUE(at::equal(ours.gradients, ours.before));
  }
}

TEST(GradientTarget, IsLeftAloneByWeightsThatAreUsedTwiceOrElsewhereOrNotLearned) {
  torch::manual_seed(4);
  const at::Tensor input = at::randn({8, 21});
  InPlace ours;
  {
    const GradientTarget target(ours.flat, ours.gradients, true);
    ours.run(input, 2);
    EXPECT_TRUE(ours.module->weight.grad().defined());
    EXPECT_FALSE(target.has(7));
  }
  {
    const GradientTarget target(ours.flat.narrow(0, 0, 100), ours.gradients.narrow(0, 0, 100), true);
    ours.run(input, 1);
    EXPECT_TRUE(ours.module->weight.grad().defined());
  }
  {
    const GradientTarget target(ours.flat, ours.gradients, true);
    ours.module->weight.set_requires_grad(false);
    ours.run(input, 1);
    EXPECT_FALSE(target.has(7));
  }
  EXPECT_EQ(GradientTarget::current(), nullptr);
  EXPECT_TRUE(at::equal(ours.gradients, ours.before));
}

}  // namespace
}  // namespace lockstep::kernels
