// Updates as plain functions and as objects, against PyTorch's.
#include "lockstep/train/custom/learnables.h"

#include <limits>

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

TEST(Learnables, UpdatesArePyTorchsAndPure) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> first{at::randn({3, 4}), at::randn({5})};
  std::vector<at::Tensor> theirs{first[0].clone().requires_grad_(), first[1].clone().requires_grad_()};
  torch::optim::SGD sgd(theirs, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
  std::vector<at::Tensor> theirs_of_adam{first[0].clone().requires_grad_(),
                                         first[1].clone().requires_grad_()};
  torch::optim::Adam their_adam(theirs_of_adam, torch::optim::AdamOptions(0.01));
  SgdmUpdate state{first, {}};
  AdamUpdate moments{first, {}};
  const auto held = first[0].clone();
  for (int step = 0; step < 3; ++step) {
    const std::vector<at::Tensor> gradients{at::randn({3, 4}), at::randn({5})};
    for (size_t i = 0; i < 2; ++i) theirs[i].mutable_grad() = gradients[i].clone();
    for (size_t i = 0; i < 2; ++i) theirs_of_adam[i].mutable_grad() = gradients[i].clone();
    sgd.step();
    their_adam.step();
    state =
        sgdm_update(state.parameters, gradients, state.velocity, {.learning_rate = 0.1, .nesterov = true});
    moments = adam_update(moments.parameters, gradients, moments.moments, {.learning_rate = 0.01});
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(state.parameters[i], theirs[i], 1e-6, 1e-7));
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(at::allclose(moments.parameters[i], theirs_of_adam[i], 1e-6, 1e-7));
  EXPECT_EQ(moments.moments.iteration, 3);
  EXPECT_TRUE(at::equal(first[0], held));
  EXPECT_THROW(sgdm_update(first, {first[0]}), Error);
  EXPECT_THROW(sgdm_update(first, {first[1], first[0]}), Error);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-1.0, -1e-9, nan, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(sgdm_update(first, first, {}, {.learning_rate = bad}), Error) << bad;
    EXPECT_THROW(Sgdm(first, {.momentum = bad}), Error) << bad;
    EXPECT_THROW(Adam(first, {.weight_decay = bad}), Error) << bad;
    Sgdm sgdm(first);
    EXPECT_THROW(sgdm.step(first, bad), Error) << bad;
    EXPECT_EQ(sgdm.steps(), 0) << bad;
  }
}

TEST(Learnables, FrozenOnesKeepTheirBitsUnderWeightDecay) {
  const std::vector<at::Tensor> parameters{at::randn({4}).requires_grad_(), at::randn({3})};
  const std::vector<at::Tensor> gradients{at::randn({4}), at::zeros({3})};
  SgdmUpdate sgdm{parameters, {}};
  AdamUpdate adam{parameters, {}};
  for (int step = 0; step < 2; ++step) {
    sgdm = sgdm_update(sgdm.parameters, gradients, sgdm.velocity, {.weight_decay = 0.1});
    adam = adam_update(adam.parameters, gradients, adam.moments, {.weight_decay = 0.1});
  }
  EXPECT_TRUE(adam.parameters[0].requires_grad());
  EXPECT_TRUE(sgdm_update(sgdm.parameters, {}).parameters[0].requires_grad());
  for (const auto& updated : {sgdm.parameters, adam.parameters}) {
    EXPECT_FALSE(at::equal(updated[0], parameters[0]));
    EXPECT_TRUE(at::equal(updated[1], parameters[1]));
  }
}

TEST(Learnables, ObjectsDoWhatTheFunctionsDo) {
  const std::vector<at::Tensor> plain{at::randn({2})}, half{at::randn({2}), at::randn({3}).requires_grad_()};
  for (const auto& given : {plain, half}) {
    std::vector<at::Tensor> own;
    for (const at::Tensor& one : given)
      own.push_back(one.detach().clone().requires_grad_(one.requires_grad()));
    const auto updated = sgdm_update(given, given, {}, {.weight_decay = 0.1}).parameters;
    Sgdm(own, {.weight_decay = 0.1}).step(given);
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(at::equal(own[i], updated[i])) << i;
    EXPECT_FALSE(at::equal(own.back(), given.back()));
  }
  std::vector<at::Tensor> parameters{at::randn({7}).requires_grad_()};
  SgdmUpdate pure{{parameters[0].detach().clone()}, {}};
  AdamUpdate pure_adam{{parameters[0].detach().clone()}, {}};
  std::vector<at::Tensor> adam_parameters{parameters[0].detach().clone().requires_grad_()};
  Sgdm sgdm(parameters, {.learning_rate = 0.1});
  Adam adam(adam_parameters, {.weight_decay = 0.1});
  for (int step = 0; step < 3; ++step) {
    const std::vector<at::Tensor> gradients{at::randn({7})};
    sgdm.step(gradients);
    adam.step(gradients);
    pure = sgdm_update(pure.parameters, gradients, pure.velocity, {.learning_rate = 0.1});
    pure_adam = adam_update(pure_adam.parameters, gradients, pure_adam.moments, {.weight_decay = 0.1});
  }
  EXPECT_TRUE(at::equal(parameters[0], pure.parameters[0]));
  EXPECT_TRUE(at::equal(adam_parameters[0], pure_adam.parameters[0]));
}

// As `exchange` returns it in fp16-mixed.
TEST(Learnables, AStepWithoutGradientsIsNotMade) {
  const at::Tensor first = at::randn({7});
  const auto copy = [&] { return std::vector<at::Tensor>{first.clone().requires_grad_()}; };
  const std::vector<at::Tensor> gradients{at::randn({7})};
  const auto skipped = copy(), made = copy();
  Adam with(skipped, {.weight_decay = 0.1}), without(made, {.weight_decay = 0.1});
  AdamUpdate pure{copy(), {}};
  SgdmUpdate pure_sgdm{copy(), {}};
  for (const bool skip : {false, true, false}) {
    const auto given = skip ? std::vector<at::Tensor>() : gradients;
    with.step(given);
    if (!skip) without.step(gradients);
    pure = adam_update(pure.parameters, given, pure.moments, {.weight_decay = 0.1});
    pure_sgdm = sgdm_update(pure_sgdm.parameters, given, pure_sgdm.velocity);
  }
  EXPECT_EQ(with.steps(), 3);
  EXPECT_TRUE(at::equal(skipped[0], made[0]));
  EXPECT_TRUE(at::equal(pure.parameters[0], made[0]));
  const auto once = sgdm_update(copy(), gradients);
  const auto twice = sgdm_update(once.parameters, gradients, once.velocity);
  EXPECT_TRUE(at::equal(pure_sgdm.parameters[0], twice.parameters[0]));
  const auto minus = [](const at::Tensor& parameter, const at::Tensor& gradient) {
    return parameter - gradient;
  };
  EXPECT_TRUE(at::equal(update(copy(), {}, minus)[0], first));
}

}  // namespace
}  // namespace lockstep::train
