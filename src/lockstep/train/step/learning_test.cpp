#include "lockstep/train/step/learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

NetworkPlan learning_plan() {
  NetworkPlan plan;
  plan.input = {1, 12, 12, 4};
  return plan;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

double factor_of(const SharedWeights& weights, const std::vector<RateFactor>& factors,
                 const std::string& name) {
  for (size_t i = 0; i < factors.size(); ++i) {
    if (weights.slots()[i].name == name) return factors[i].value;
  }
  return -1;
}

TEST(Learning, FactorsGoByPatternAndTheLastOneCounts) {
  NetworkPlan plan = learning_plan();
  plan.learning_rate_factors = "0=3,*.bias=2,1.*=0.5";
  const nn::Instance instance = trainable_instance(nn::find_network("digits_cnn"), plan, 0);
  const SharedWeights weights(instance, at::kFloat, at::kCPU);
  plan.fresh_layers = {"10"};
  const auto factors = learning_rate_factors(learnables_of(instance), plan);
  plan.fresh_layers = {};
  EXPECT_EQ(factor_of(weights, factors, "0.weight"), 3);
  EXPECT_EQ(factor_of(weights, factors, "0.bias"), 2);
  EXPECT_EQ(factor_of(weights, factors, "1.bias"), 0.5);
  EXPECT_EQ(factor_of(weights, factors, "3.weight"), 1);
  EXPECT_EQ(factor_of(weights, factors, "10.weight"), 10);
  EXPECT_EQ(factor_of(weights, factors, "10.bias"), 2);
  for (const char* bad : {"0", "0=", "=3", "0=-1", "0=x", "0=1,"}) {
    plan.learning_rate_factors = bad;
    EXPECT_THAT(error_of([&] { learning_rate_factors(learnables_of(instance), plan); }),
                HasSubstr("must be PATTERN=FACTOR"))
        << bad;
  }
  plan.learning_rate_factors = "nothing=2";
  EXPECT_THAT(error_of([&] { learning_rate_factors(learnables_of(instance), plan); }),
              HasSubstr("learns nothing that \"nothing\""));
}

TEST(Learning, FrozenLearnablesAreKeptBesideTheLearnedOnes) {
  NetworkPlan plan = learning_plan();
  plan.freeze = {"0", "1", "10.bias"};
  const nn::Instance instance = trainable_instance(nn::find_network("digits_cnn"), plan, 0);
  const at::Tensor frozen = instance.module->named_parameters()["0.weight"].detach().clone();
  const SharedWeights weights(instance, at::kFloat, at::kCPU);
  EXPECT_EQ(weights.slots().front().name, "3.weight");
  EXPECT_EQ(weights.slots().back().name, "10.weight");
  EXPECT_TRUE(at::equal(weights.buffer("0.weight"), frozen));
  EXPECT_EQ(instance.module->named_parameters()["0.weight"].const_data_ptr(),
            weights.buffer("0.weight").const_data_ptr());
  EXPECT_EQ(weights.state().size(), 14U + 9U);
  plan.freeze = {"*"};
  EXPECT_THAT(error_of([&] {
                SharedWeights all(trainable_instance(nn::find_network("digits_cnn"), plan, 0), at::kFloat,
                                  at::kCPU);
              }),
              HasSubstr("all its parameters are frozen"));
}

// For any range that a worker updates, every element moves with its own learning rate.
TEST(Learning, FactorsMultiplyTheRateOfEachElement) {
  NetworkPlan plan = learning_plan();
  plan.learning_rate_factors = "0.bias=10,3=0";
  const nn::Instance instance = trainable_instance(nn::find_network("digits_cnn"), plan, 0);
  SharedWeights weights(instance, at::kFloat, at::kCPU);
  const auto factors = learning_rate_factors(learnables_of(instance), plan);
  device::UpdateRule rule{.kind = device::UpdateKind::sgdm};
  const Optimizer optimizer(rule, weights, rate_parts(weights, factors));
  const at::Tensor before = weights.flat().clone();
  const std::vector<float> gradient(static_cast<size_t>(weights.element_count()), 1.0F);
  for (int64_t begin = 0; begin < weights.element_count(); begin += 333) {
    optimizer.update<float>(optimizer.rule_at(0, 0.5), weights, gradient.data() + begin, begin,
                            std::min<int64_t>(333, weights.element_count() - begin));
  }
  const auto moved = weights.views(before - weights.flat());
  for (size_t i = 0; i < moved.size(); ++i)
    EXPECT_TRUE(at::allclose(moved[i], at::full_like(moved[i], 0.5 * factors[i].value), 1e-4, 1e-5))
        << weights.slots()[i].name;
}

TEST(Learning, OnlyTheNewHeadMovesInItsSteps) {
  NetworkPlan plan = learning_plan();
  plan.fresh_layers = {"10"};
  const nn::Instance instance = trainable_instance(nn::find_network("digits_cnn"), plan, 0);
  SharedWeights weights(instance, at::kFloat, at::kCPU);
  constexpr int64_t kHeadSteps = 5;
  const Optimizer optimizer(
      {.kind = device::UpdateKind::sgdm}, weights,
      rate_parts(weights, learning_rate_factors(learnables_of(instance), plan, kHeadSteps)));
  const std::vector<float> gradient(static_cast<size_t>(weights.element_count()), 1.0F);
  const auto moved = [&](int64_t step) {
    const at::Tensor before = weights.flat().clone();
    optimizer.update<float>(optimizer.rule_at(step, 0.5), weights, gradient.data(), 0,
                            weights.element_count());
    std::vector<std::string> names;
    for (const auto& slot : weights.slots()) {
      const at::Tensor change = (weights.flat() - before).narrow(0, slot.offset, slot.count);
      if (change.ne(0).any().item<bool>()) names.push_back(slot.name);
    }
    return names;
  };
  EXPECT_THAT(moved(kHeadSteps - 1), testing::ElementsAre("10.weight", "10.bias"));
  EXPECT_EQ(moved(kHeadSteps).size(), weights.slots().size());
}

}  // namespace
}  // namespace lockstep::train
