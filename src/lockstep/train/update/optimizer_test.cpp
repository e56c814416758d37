#include "lockstep/train/update/optimizer.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "lockstep/train/update/test_ranks.h"
#include "lockstep/train/update/test_rules.h"

namespace lockstep::train {
namespace {

constexpr double kRate = 0.05;
constexpr int64_t kSteps = 6;

// The state of one element between steps.
struct ElementState {
  double weight, first = 0, second = 0;
};
// One step of one element: its gradient, and the step counted from 1.
using ElementStep = std::function<void(ElementState& element, double gradient, int64_t step)>;

// Trains the made-up gradients of kSteps steps, and compares every element with the formula.
void expect_formula(const Options& options, const ElementStep& formula) {
  SharedWeights weights(test::linear_layers({5, 7, 3}), at::kDouble, at::kCPU);
  const Optimizer optimizer(test::resolved_rule(options), weights);
  const auto gradients = test::vectors_of(kSteps, weights.element_count(), at::kDouble);
  std::vector<ElementState> expected;
  for (int64_t i = 0; i < weights.element_count(); ++i)
    expected.push_back({.weight = weights.flat()[i].item<double>()});
  for (int64_t step = 0; step < kSteps; ++step) {
    const double* gradient = gradients[static_cast<size_t>(step)].const_data_ptr<double>();
    // In two parts, as two workers update their own.
    const device::UpdateRule rule = optimizer.rule_at(step, kRate);
    optimizer.update(rule, weights, gradient + 11, 11, weights.element_count() - 11);
    optimizer.update(rule, weights, gradient, 0, 11);
    for (size_t i = 0; i < expected.size(); ++i) formula(expected[i], gradient[i], step + 1);
  }
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(weights.flat()[static_cast<int64_t>(i)].item<double>(), expected[i].weight, 1e-12) << i;
}

// torch.optim.SGD with dampening 0.
TEST(Optimizer, SgdIsPyTorchs) {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      Options options;
      options.optimizer = OptimizerKind::sgdm;
      options.momentum = momentum;
      options.nesterov = nesterov && momentum > 0;
      options.weight_decay = 0.02;
      expect_formula(options, [&](ElementState& element, double gradient, int64_t) {
        gradient += 0.02 * element.weight;
        element.first = momentum * element.first + gradient;
        element.weight -= kRate * (options.nesterov ? gradient + momentum * element.first : element.first);
      });
    }
  }
}

// Kingma and Ba 2014, algorithm 1, and Loshchilov and Hutter 2017, algorithm 2 with the decay times the rate.
TEST(Optimizer, AdamAndAdamWArePyTorchs) {
  for (const bool decoupled : {false, true}) {
    Options options;
    options.optimizer = decoupled ? OptimizerKind::adamw : OptimizerKind::adam;
    options.beta1 = 0.8;
    options.beta2 = 0.95;
    options.epsilon = 1e-3;
    options.weight_decay = 0.02;
    expect_formula(options, [&](ElementState& element, double gradient, int64_t step) {
      if (decoupled) {
        element.weight -= kRate * 0.02 * element.weight;
      } else {
        gradient += 0.02 * element.weight;
      }
      element.first = 0.8 * element.first + 0.2 * gradient;
      element.second = 0.95 * element.second + 0.05 * gradient * gradient;
      const double mean = element.first / (1 - std::pow(0.8, step)),
                   mean_square = element.second / (1 - std::pow(0.95, step));
      element.weight -= kRate * mean / (std::sqrt(mean_square) + 1e-3);
    });
  }
}

// torch.optim.RMSprop, not centered: epsilon outside the root.
TEST(Optimizer, RmspropIsPyTorchs) {
  for (const double momentum : {0.0, 0.5}) {
    Options options;
    options.optimizer = OptimizerKind::rmsprop;
    options.alpha = 0.9;
    options.momentum = momentum;
    options.epsilon = 1e-3;
    options.weight_decay = 0.02;
    expect_formula(options, [&](ElementState& element, double gradient, int64_t) {
      gradient += 0.02 * element.weight;
      element.first = 0.9 * element.first + 0.1 * gradient * gradient;
      element.second = momentum * element.second + gradient / (std::sqrt(element.first) + 1e-3);
      element.weight -= kRate * element.second;
    });
  }
}

TEST(Optimizer, WhatTheUserLeavesOpenDependsOnTheKind) {
  const auto rule_of = [](OptimizerKind kind) {
    Options options;
    options.optimizer = kind;
    return test::resolved_rule(options);
  };
  EXPECT_EQ(rule_of(OptimizerKind::sgdm).momentum, 0.9);
  EXPECT_EQ(rule_of(OptimizerKind::rmsprop).momentum, 0);
  EXPECT_EQ(rule_of(OptimizerKind::adam).weight_decay, 1e-4);
  EXPECT_EQ(rule_of(OptimizerKind::adamw).weight_decay, 0.01);
}

TEST(Optimizer, EachParameterHasItsRate) {
  SharedWeights weights(test::linear_layers({5, 7, 3}), at::kDouble, at::kCPU);
  Options options;
  options.momentum = 0;
  options.weight_decay = 0;
  EXPECT_TRUE(rate_parts(weights, {{}, {}, {}, {}}).empty());
  const std::vector<RatePart> parts = rate_parts(weights, {{0}, {0}, {10}, {1}});
  EXPECT_EQ(parts.size(), 3U) << "neighbours with one factor are one part";
  const Optimizer optimizer(test::resolved_rule(options), weights, parts);
  const at::Tensor start = weights.flat().clone(), gradient = at::ones_like(start);
  const int64_t middle = weights.slots()[2].offset + 2;
  const device::UpdateRule rule = optimizer.rule_at(0, 0.5);
  optimizer.update(rule, weights, gradient.const_data_ptr<double>(), 0, middle);
  optimizer.update(rule, weights, gradient.const_data_ptr<double>(), middle, start.numel() - middle);
  const auto moved = weights.views(start - weights.flat());
  const std::vector<double> expected{0, 0, 5, 0.5};
  for (size_t i = 0; i < moved.size(); ++i)
    EXPECT_TRUE(at::allclose(moved[i], at::full_like(moved[i], expected[i]), 0, 1e-12)) << i;
}

TEST(Optimizer, ItsStateHasTheParametersNamesAndIsLive) {
  SharedWeights weights(test::linear_layers({5, 7}), at::kDouble, at::kCPU);
  Options options;
  options.optimizer = OptimizerKind::adam;
  options.weight_decay = 0;
  const Optimizer optimizer(test::resolved_rule(options), weights);
  const nn::NamedTensors state = optimizer.state(weights);
  ASSERT_EQ(state.size(), 4U);
  EXPECT_EQ(state[0].first, "0.weight.first");
  EXPECT_EQ(state[3].first, "0.bias.second");
  const at::Tensor gradient = at::ones_like(weights.flat());
  optimizer.update(optimizer.rule_at(0, kRate), weights, gradient.const_data_ptr<double>(), 0,
                   gradient.numel());
  EXPECT_TRUE(at::allclose(state[0].second, at::full({7, 5}, 0.1, at::kDouble)));
  EXPECT_TRUE(at::allclose(state[3].second, at::full({7}, 0.001, at::kDouble)));
}

}  // namespace
}  // namespace lockstep::train
