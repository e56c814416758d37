#include "lockstep/nn/losses.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

TEST(Losses, AreTheSumOverSamplesAndItsMean) {
  const at::Tensor logits = at::tensor({1.0, 2.0, 0.5, 0.0, 0.0, 3.0}).view({2, 3}).to(at::kDouble);
  const at::Tensor target = at::tensor({1, 2}, at::kLong);
  const at::Tensor probabilities = softmax(logits);
  EXPECT_TRUE(at::allclose(probabilities.sum(1), at::ones({2}, at::kDouble)));
  const double expected =
      -std::log(probabilities[0][1].item<double>()) - std::log(probabilities[1][2].item<double>());
  EXPECT_NEAR(cross_entropy_sum(logits, target).item<double>(), expected, 1e-12);
  EXPECT_NEAR(cross_entropy(logits, target).item<double>(), expected / 2, 1e-12);
  EXPECT_NEAR(cross_entropy_sum(logits, at::one_hot(target, 3).to(at::kDouble)).item<double>(), expected,
              1e-12);

  const at::Tensor other = at::zeros_like(logits);
  EXPECT_NEAR(mse_sum(logits, other).item<double>(), (1 + 4 + 0.25 + 9) / 2, 1e-12);
  EXPECT_NEAR(mse(logits, other).item<double>(), (1 + 4 + 0.25 + 9) / 4, 1e-12);
}

TEST(Losses, CrossEntropyOfTimeStepsLeavesOutThoseWithoutClass) {
  const at::Tensor logits = at::arange(24, at::kDouble).sin().view({2, 3, 4});
  const at::Tensor target = at::tensor({0, -1, 2, 1, 1, 1, -1, -1}, at::kLong).view({2, 4});
  const at::Tensor chosen = at::log_softmax(logits, 1).gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1);
  EXPECT_NEAR(cross_entropy_sum(logits, target).item<double>(), -(chosen * target.ge(0)).sum().item<double>(),
              1e-12);
}

TEST(Losses, OfHalfPrecisionAreWideAndHaveGradients) {
  const at::Tensor logits = at::randn({4, 3}).to(at::kBFloat16).requires_grad_();
  const at::Tensor loss = cross_entropy_sum(logits, at::tensor({0, 1, 2, 0}, at::kLong));
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  EXPECT_TRUE(logits.grad().defined());
}

TEST(Losses, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(cross_entropy_sum(at::zeros({4, 3}), at::zeros({3}, at::kLong)), Error);
  EXPECT_THROW(cross_entropy_sum(at::zeros({4, 3, 5}), at::zeros({4, 6}, at::kLong)), Error);
  EXPECT_THROW(cross_entropy_sum(at::zeros({4, 3, 5}), at::zeros({4}, at::kLong)), Error);
  EXPECT_THROW(cross_entropy_sum(at::zeros({4, 3}), at::zeros({4}, at::kFloat)), Error);
  EXPECT_THROW(mse_sum(at::zeros({4, 1}), at::zeros({4})), Error);
}

}  // namespace
}  // namespace lockstep::nn
