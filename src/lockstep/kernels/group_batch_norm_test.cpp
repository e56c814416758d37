#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/fused_batch_norm.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

struct GroupOutcome {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

template <class Module>
GroupOutcome normalized(Module& module, const at::Tensor& input, const at::Tensor& gradient) {
  at::Tensor leaf = input.detach().requires_grad_(true);
  module->zero_grad();
  const at::Tensor output = module->forward(leaf);
  output.backward(gradient);
  return {output.detach(), leaf.grad(), module->weight.grad().clone(), module->bias.grad().clone()};
}

void expect_all_near(const GroupOutcome& ours, const GroupOutcome& reference, double tolerance) {
  for (const auto& part : {&GroupOutcome::output, &GroupOutcome::input_gradient,
                           &GroupOutcome::weight_gradient, &GroupOutcome::bias_gradient}) {
    const at::Tensor expected = (reference.*part).to(at::kDouble);
    EXPECT_LE(((ours.*part).to(at::kDouble) - expected).abs().max().template item<double>(),
              tolerance * std::max(1.0, expected.abs().max().template item<double>()));
  }
}

// Images of six shards of three samples, in groups of all, and of two and four shards.
TEST(GroupBatchNorm, NormalisesOverEachGroup) {
  torch::manual_seed(5);
  const at::Tensor input = at::randn({18, 20, 4, 5}) * 3 + 10, gradient = at::randn({18, 20, 4, 5});
  for (const bool fused : {true, false}) {
    const DirectKernels own(fused);
    const auto type = fused ? at::kFloat : at::kDouble;
    torch::nn::BatchNorm2d module(torch::nn::BatchNormOptions(20).momentum(1.0));
    module->to(type);
    module->weight.data().uniform_();
    const auto ordered = [&](const at::Tensor& images) {
      return images.to(type).contiguous(at::MemoryFormat::ChannelsLast);
    };
    for (const std::vector<Range>& groups : {std::vector<Range>{{0, 6}}, {{0, 2}, {2, 6}}}) {
      GroupOutcome reference;
      for (const Range group : groups) {
        const auto part = [&](const at::Tensor& all) {
          return ordered(all.narrow(0, 3 * group.begin, 3 * group.count()));
        };
        const GroupOutcome alone = normalized(module, part(input), part(gradient));
        const auto append = [](at::Tensor& all, const at::Tensor& more) {
          all = all.defined() ? at::cat({all, more}) : more;
        };
        append(reference.output, alone.output);
        append(reference.input_gradient, alone.input_gradient);
        const auto add = [](at::Tensor& sum, const at::Tensor& more) {
          sum = sum.defined() ? sum + more : more;
        };
        add(reference.weight_gradient, alone.weight_gradient);
        add(reference.bias_gradient, alone.bias_gradient);
      }
      const ShardsTogether together(6, {groups});
      expect_all_near(normalized(module, ordered(input), ordered(gradient)), reference, fused ? 1e-5 : 1e-12);
    }
  }
}

TEST(GroupBatchNorm, KeepsTheStatisticsOfEachShard) {
  const DirectKernels own(true);
  torch::nn::BatchNorm2d module(torch::nn::BatchNormOptions(3).momentum(1.0));
  const at::Tensor input = at::randn({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const ShardsTogether together(4, {{{0, 4}}});
  module->forward(input.detach().requires_grad_(true));
  for (int64_t shard = 0; shard < 4; ++shard) {
    const at::Tensor values = input.narrow(0, 2 * shard, 2).transpose(0, 1).flatten(1);
    EXPECT_LE((together.statistics(module->running_mean)[shard] - values.mean(1)).abs().max().item<float>(),
              1e-6);
    EXPECT_LE((together.statistics(module->running_var)[shard] - values.var(1)).abs().max().item<float>(),
              1e-5);
  }
}

TEST(GroupBatchNorm, LeavesInstanceNormsAlone) {
  const DirectKernels own(true);
  const at::Tensor input = at::randn({8, 3, 5, 5});
  const at::Tensor expected = at::instance_norm(input, {}, {}, {}, {}, true, 0.1, 1e-5, false);
  const ShardsTogether together(4, {{{0, 4}}});
  EXPECT_TRUE(at::equal(at::instance_norm(input, {}, {}, {}, {}, true, 0.1, 1e-5, false), expected));
}

}  // namespace
}  // namespace lockstep::kernels
