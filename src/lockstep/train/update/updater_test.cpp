// The GPU's updater with stand-in kernels on the CPU. Everything except the kernels is the code that runs on
// a GPU.
#include "lockstep/train/update/updater.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/device/kernels.h"

namespace lockstep::train {
namespace {

class CpuStandIn : public device::GpuKernels {
 public:
  void update(const device::UpdateRule& rule, const at::Tensor& gradient, const at::Tensor& weight,
              const at::Tensor& first, const at::Tensor& second) const override {
    const auto pointer = [](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
    };
    device::kernels<float>().update(rule, pointer(gradient), pointer(weight), pointer(first), pointer(second),
                                    weight.numel());
  }

  at::Tensor sums_of_squares(const at::Tensor& values, int64_t block) const override {
    std::vector<double> sums;
    for (int64_t begin = 0; begin < values.numel(); begin += block) {
      sums.push_back(device::kernels<float>().sum_of_squares(values.const_data_ptr<float>() + begin,
                                                             std::min(block, values.numel() - begin)));
    }
    return at::tensor(sums, at::kDouble);
  }

  void drop(const at::Tensor&, const at::Tensor&, const at::Tensor&, const device::Kept&) const override {
    FAIL() << "an update drops nothing";
  }
};

nn::Instance network() {
  torch::manual_seed(1);
  torch::nn::Sequential layers(torch::nn::Linear(70, 90), torch::nn::Linear(90, 10));
  return {layers.ptr(), [layers](const at::Tensor& input) mutable { return layers->forward(input); }};
}

constexpr int64_t kShards = 5;

// Changes to the gradients of all steps.
struct ScaledUpdate {
  double factor = 1;
  NotFinite not_finite = NotFinite::update;
  double last = 0;  // added to the last element of the last shard
};

// Three steps of `workers` threads; the gradients are the same for any number of them.
at::Tensor trained(bool on_gpu_code, int64_t workers, const UpdatePlan& plan,
                   const ScaledUpdate& scaled = {}) {
  const nn::Instance instance = network();
  SharedWeights weights(instance, at::kFloat, at::kCPU);
  const Optimizer optimizer(rule_of(plan), weights);
  comm::ThreadGroup group(workers);
  const CpuStandIn kernels;
  const auto updater = on_gpu_code
                           ? gpu_updater(kernels, weights, optimizer, plan.gradient_clip, scaled.not_finite)
                           : cpu_updater(group, weights, optimizer, plan.gradient_clip, scaled.not_finite);
  torch::manual_seed(2);
  std::vector<at::Tensor> gradients;
  for (int64_t i = 0; i < 3 * kShards; ++i)
    gradients.push_back(at::randn({weights.element_count()}) * scaled.factor);
  for (int64_t step = 1; step <= 3; ++step)
    gradients[static_cast<size_t>(step * kShards - 1)][-1] += scaled.last;
  std::vector<comm::NodeStack> stacks(static_cast<size_t>(workers),
                                      comm::NodeStack(weights.element_count(), at::kFloat, at::kCPU));
  group.run([&](Share share) {
    for (int64_t step = 0; step < 3; ++step) {
      auto& stack = stacks[static_cast<size_t>(share.rank)];
      const Range own = part_of(kShards, share.size, share.rank);
      stack.begin(kShards);
      for (int64_t shard = own.begin; shard < own.end; ++shard) {
        stack.take(single(shard), [&](const at::Tensor& buffer, bool add) {
          const at::Tensor& gradient = gradients[static_cast<size_t>(step * kShards + shard)];
          add ? buffer.add_(gradient) : buffer.copy_(gradient);
        });
      }
      group.barrier();
      std::vector<comm::Node> nodes;
      for (const comm::NodeStack& each : stacks)
        nodes.insert(nodes.end(), each.nodes().begin(), each.nodes().end());
      device::UpdateRule rule = optimizer.rule_at(step, 0.1);
      rule.gradient_scale = 1 / scaled.factor;
      updater->step(share, nodes, kShards, rule);
      group.barrier();
    }
  });
  EXPECT_EQ(updater->gradient_norm() > plan.gradient_clip,
            scaled.not_finite == NotFinite::skip ? !std::isnan(scaled.last) : plan.gradient_clip > 0);
  EXPECT_EQ(updater->skipped(), !std::isfinite(scaled.last));
  return weights.flat().clone();
}

TEST(Updater, TheGpusCodeGivesTheCpusBits) {
  for (const OptimizerKind kind : {OptimizerKind::sgdm, OptimizerKind::adam, OptimizerKind::rmsprop}) {
    for (const double clip : {0.0, 1.5}) {
      UpdatePlan plan;
      plan.optimizer = kind;
      plan.gradient_clip = clip;
      const at::Tensor expected = trained(false, 1, plan);
      EXPECT_TRUE(at::equal(expected, trained(false, 3, plan)));
      for (const int64_t workers : {1, 2, 3})
        EXPECT_TRUE(at::equal(expected, trained(true, workers, plan)))
            << workers << " workers, clip " << clip;
    }
  }
}

TEST(Updater, APowerOfTwoInTheGradientsChangesNoBitAndNotFiniteOnesNoWeight) {
  for (const double clip : {0.0, 1.5}) {
    UpdatePlan plan;
    plan.gradient_clip = clip;
    const at::Tensor expected = trained(false, 1, plan);
    for (const bool on_gpu_code : {false, true}) {
      for (const int64_t workers : {1, 3}) {
        EXPECT_TRUE(at::equal(
            expected, trained(on_gpu_code, workers, plan, {.factor = 65536, .not_finite = NotFinite::skip})));
        for (const double last :
             {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
          const at::Tensor left = trained(on_gpu_code, workers, plan,
                                          {.factor = 65536, .not_finite = NotFinite::skip, .last = last});
          EXPECT_TRUE(at::equal(left, SharedWeights(network(), at::kFloat, at::kCPU).flat()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
