#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/fused_batch_norm.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

struct Outcome {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance;
};

// The engine's operators in double, or ours in `type`.
Outcome run(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
            const at::Tensor& gradient, bool relu, bool fused) {
  torch::nn::BatchNorm2d module(torch::nn::BatchNormOptions(input.size(1)).momentum(0.3));
  module->to(fused ? at::kFloat : at::kDouble);
  module->weight.data().copy_(weight);
  module->bias.data().copy_(bias);
  const DirectKernels own(fused);
  at::Tensor leaf = (fused ? input.contiguous(at::MemoryFormat::ChannelsLast) : input.to(at::kDouble))
                        .detach()
                        .requires_grad_(true);
  const at::Tensor output =
      fused ? batch_norm(*module, leaf, relu) : (relu ? module->forward(leaf).relu() : module->forward(leaf));
  output.backward(gradient.to(output.scalar_type()));
  return {output.detach(),     leaf.grad(),          module->weight.grad(),
          module->bias.grad(), module->running_mean, module->running_var};
}

void expect_near(const at::Tensor& ours, const at::Tensor& reference, double tolerance, const char* what) {
  const at::Tensor expected = reference.to(at::kDouble);
  const double difference = (ours.to(at::kDouble) - expected).abs().max().item<double>();
  EXPECT_LE(difference, tolerance * std::max(1.0, expected.abs().max().item<double>())) << what;
}

TEST(FusedBatchNorm, OneThatIsCalledTwiceInAPassIsRefused) {
  const ShardsTogether together(2);
  const at::Tensor mean = at::zeros({20}), variance = at::ones({20});
  for (int shard = 0; shard < 2; ++shard) ShardsTogether::keep_statistics(mean, variance);
  EXPECT_THROW(ShardsTogether::keep_statistics(mean, variance), Error);
}

TEST(FusedBatchNorm, EqualsTheEngineInDouble) {
  torch::manual_seed(5);
  for (const auto& shape : std::vector<std::vector<int64_t>>{{16, 20, 24, 24},
                                                             {1, 1, 3, 2},
                                                             {2, 1, 5, 5},
                                                             {3, 37, 7, 5},
                                                             {1, 64, 8, 8},
                                                             {5, 3, 1, 1},
                                                             {2, 512, 2, 2}}) {
    for (const bool relu : {false, true}) {
      const at::Tensor input = at::randn(shape) * 3 + 10;
      const at::Tensor weight = at::randn({shape[1]}), bias = at::randn({shape[1]}),
                       gradient = at::randn(shape);
      const Outcome ours = run(input, weight, bias, gradient, relu, true);
      const Outcome reference = run(input, weight, bias, gradient, relu, false);
      SCOPED_TRACE(c10::str(shape, " relu ", relu));
      expect_near(ours.output, reference.output, 2e-5, "output");
      expect_near(ours.input_gradient, reference.input_gradient, 2e-4, "input gradient");
      expect_near(ours.weight_gradient, reference.weight_gradient, 1e-4, "weight gradient");
      expect_near(ours.bias_gradient, reference.bias_gradient, 1e-4, "bias gradient");
      expect_near(ours.mean, reference.mean, 1e-6, "running mean");
      expect_near(ours.variance, reference.variance, 1e-5, "running variance");
    }
  }
}

TEST(FusedBatchNorm, BFloat16IsAsNearAsItsDigitsAllow) {
  torch::manual_seed(6);
  const at::Tensor input = at::randn({8, 20, 12, 12}).to(at::kBFloat16),
                   gradient = at::randn({8, 20, 12, 12}).to(at::kBFloat16);
  const at::Tensor weight = at::rand({20}) + 0.5, bias = at::randn({20});
  const Outcome ours = run(input, weight, bias, gradient, true, true);
  const Outcome reference = run(input.to(at::kFloat), weight, bias, gradient.to(at::kDouble), true, false);
  EXPECT_EQ(ours.output.scalar_type(), at::kBFloat16);
  expect_near(ours.output, reference.output, 4e-3, "output");
  expect_near(ours.weight_gradient, reference.weight_gradient, 1e-2, "weight gradient");
  expect_near(ours.mean, reference.mean, 1e-5, "running mean");
}

// Backward writes into the gradient that it is given, but only if nobody else has it.
TEST(FusedBatchNorm, LeavesAGradientThatOthersHave) {
  const DirectKernels own(true);
  torch::nn::BatchNorm2d module(20);
  const auto drawn = [] { return at::randn({4, 20, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast); };
  for (const bool relu : {false, true}) {
    const at::Tensor input = drawn().requires_grad_(), given = drawn(), copy = given.clone();
    batch_norm(*module, input, relu).backward(given);
    EXPECT_TRUE(at::equal(given, copy));
  }
}

TEST(FusedBatchNorm, EvaluationUsesTheRunningStatistics) {
  const DirectKernels own(true);
  torch::nn::BatchNorm2d module(4);
  module->eval();
  const at::Tensor input = at::randn({2, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::allclose(batch_norm(*module, input, true), (input / std::sqrt(1 + 1e-5)).relu()));
}

TEST(FusedBatchNorm, IsLeftToTheEngineWhereOwnKernelsAreOff) {
  torch::manual_seed(8);
  const at::Tensor input = at::randn({4, 20, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  torch::nn::BatchNorm2d module(20);
  const at::Tensor expected = module->forward(input);
  for (const bool own_kernels : {false, true}) {
    const DirectKernels own(own_kernels);
    EXPECT_EQ(at::equal(batch_norm(*module, input, false), expected), !own_kernels);
  }
}

}  // namespace
}  // namespace lockstep::kernels
