#include "lockstep/train/planning/class_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include "lockstep/train/step/shard_loss.h"

namespace lockstep::train {
namespace {

TEST(ClassWeights, AreScikitLearns) {
  // compute_class_weight("balanced", classes=[0, 1, 2], y=[0] * 6 + [1] * 3 + [2])
  EXPECT_THAT(balanced_weights({6, 3, 1}),
              testing::ElementsAre(testing::DoubleEq(10 / 18.0), testing::DoubleEq(10 / 9.0),
                                   testing::DoubleEq(10 / 3.0)));
  EXPECT_THAT(balanced_weights({4, 0, 4}), testing::ElementsAre(1, 0, 1));
}

// The sum over two shards, divided by the number of samples, is PyTorch's weighted mean over all.
TEST(ClassWeights, MakeTheLossPyTorchs) {
  torch::manual_seed(1);
  const at::Tensor logits = torch::randn({10, 3}, at::kDouble).requires_grad_();
  const at::Tensor target = torch::tensor({0, 0, 0, 0, 0, 0, 1, 1, 1, 2}, at::kLong);
  const at::Tensor weights = torch::tensor(balanced_weights({6, 3, 1}), at::kDouble);
  namespace F = torch::nn::functional;
  const at::Tensor expected = F::cross_entropy(logits, target, F::CrossEntropyFuncOptions().weight(weights));
  const at::Tensor gradient = torch::autograd::grad({expected}, {logits})[0];

  const at::Tensor scaled = weights * (10 / weights.index_select(0, target).sum());
  at::Tensor sum = torch::zeros({}, at::kDouble);
  for (const auto& [begin, count] : {std::pair{0, 4}, std::pair{4, 6}}) {
    data::Shard shard{.count = count};
    shard.class_weights = scaled;
    sum = sum + loss_of_shard(logits.narrow(0, begin, count), target.narrow(0, begin, count), shard, 0).sum;
  }
  const at::Tensor mean = sum / 10;
  EXPECT_NEAR(mean.item<double>(), expected.item<double>(), 1e-12);
  EXPECT_TRUE(at::allclose(torch::autograd::grad({mean}, {logits})[0], gradient, 1e-12, 1e-12));
}

// PyTorch's CrossEntropyLoss(label_smoothing), with and without weights, for one shard and for several at
// once.
TEST(LabelSmoothing, MakesTheLossPyTorchs) {
  torch::manual_seed(2);
  const at::Tensor logits = torch::randn({8, 5}, at::kDouble).requires_grad_();
  const at::Tensor target = torch::randint(5, {8}, at::kLong);
  const at::Tensor weights = torch::rand({5}, at::kDouble);
  namespace F = torch::nn::functional;
  const auto expect_equal = [&](const at::Tensor& sum, const at::Tensor& expected) {
    EXPECT_NEAR(sum.item<double>(), expected.item<double>(), 1e-12);
    EXPECT_TRUE(at::allclose(torch::autograd::grad({sum}, {logits})[0],
                             torch::autograd::grad({expected}, {logits})[0], 1e-12, 1e-12));
  };
  F::CrossEntropyFuncOptions options;
  options.label_smoothing(0.1).reduction(torch::kSum);
  const at::Tensor expected = F::cross_entropy(logits, target, options);
  data::Shard shard{.count = 8};
  expect_equal(loss_of_shard(logits, target, shard, 0.1).sum, expected);
  expect_equal(loss_of_several(logits, target, 2, 0.1).sum, F::cross_entropy(logits, target, options));
  shard.class_weights = weights;
  expect_equal(loss_of_shard(logits, target, shard, 0.1).sum,
               F::cross_entropy(logits, target, options.weight(weights)));
}

// Each shard of several has the loss that it has alone.
TEST(LabelSmoothing, OfEachShardIsThatOfTheShardAlone) {
  torch::manual_seed(3);
  const at::Tensor logits = torch::randn({8, 5}), target = torch::randint(5, {8}, at::kLong);
  const BatchLoss together = loss_of_several(logits, target, 2, 0.2);
  for (const int64_t i : {0, 1}) {
    const at::Tensor rows = logits.narrow(0, 4 * i, 4), wanted = target.narrow(0, 4 * i, 4);
    const BatchLoss alone = loss_of_shard(rows, wanted, {.count = 4}, 0.2);
    EXPECT_TRUE(at::equal(together.of_each[i], alone.of_each[0]));
    EXPECT_NEAR(together.of_each[i].item<double>(), alone.sum.item<double>(), 1e-5);
  }
}

}  // namespace
}  // namespace lockstep::train
