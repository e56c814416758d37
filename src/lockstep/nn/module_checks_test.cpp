#include "lockstep/nn/module_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {
namespace {

using testing::HasSubstr;

constexpr NetworkInput kTinyInput{.channels = 1, .height = 4, .width = 4, .classes = 3};

enum class Mistake {
  none,
  unregistered_layer,
  unregistered_tensor,
  too_few_classes,
  too_many_classes,
  wrong_features,
  throws,
  registered_twice,
  detached,
  no_flatten,
  undefined
};

struct NetImpl : torch::nn::Module {
  NetImpl(const NetworkInput& input, Mistake mistake) : mistake(mistake) {
    const int64_t pixels = mistake == Mistake::wrong_features ? 10 : input.height * input.width;
    hidden = torch::nn::Linear(pixels, 8);
    if (mistake != Mistake::unregistered_layer) register_module("hidden", hidden);
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    if (mistake == Mistake::registered_twice) register_module("again", hidden);
    if (mistake == Mistake::unregistered_tensor) extra = at::ones({8}).requires_grad_();
    const int64_t off = mistake == Mistake::too_few_classes ? -1 : mistake == Mistake::too_many_classes;
    out = register_module("out", torch::nn::Linear(8, input.classes + off));
  }
  at::Tensor forward(const at::Tensor& images) {
    if (mistake == Mistake::throws) throw std::runtime_error("my forward failed");
    if (mistake == Mistake::undefined) return {};
    at::Tensor x = norm(hidden(images.flatten(1)));
    if (extra.defined()) x = x + extra;
    x = out(x);
    if (mistake == Mistake::no_flatten) x = x.unsqueeze(2);
    return mistake == Mistake::detached ? x.detach() : x;
  }
  Mistake mistake;
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor extra;
};
TORCH_MODULE(Net);

Instance instance_with(Mistake mistake) {
  return network("net", [mistake](const NetworkInput& input) { return Net(input, mistake); })
      .make(kTinyInput);
}

std::string said_of(Mistake mistake, c10::ScalarType type = at::kFloat) {
  try {
    check_module("net", instance_with(mistake), kTinyInput, type);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    EXPECT_NE(error.hint(), "");
    EXPECT_THAT(error.message(), HasSubstr("\"net\""));
    return error.message() + "; " + error.hint();
  }
  return "";
}

TEST(CheckModule, AModuleWithoutMistakesKeepsItsBuffers) {
  const Instance instance = instance_with(Mistake::none);
  check_module("net", instance, kTinyInput, at::kFloat);
  for (const auto& buffer : instance.module->named_buffers()) {
    if (buffer.key() == "norm.running_mean") {
      EXPECT_EQ(buffer.value().abs().sum().item<float>(), 0);
    }
  }
  EXPECT_EQ(said_of(Mistake::none, at::kDouble), "");
}

// Its layer would have other random weights in each worker, and none in the file.
TEST(CheckModule, WhatLearnsMustBeRegistered) {
  EXPECT_THAT(said_of(Mistake::unregistered_layer), HasSubstr("register_module"));
  EXPECT_THAT(said_of(Mistake::unregistered_tensor), HasSubstr("uses a tensor [8]"));
}

TEST(CheckModule, ThereAreAsManyOutputsAsClasses) {
  EXPECT_THAT(said_of(Mistake::too_few_classes), HasSubstr("gives [2, 2] for 2 images of 3 classes"));
  EXPECT_THAT(said_of(Mistake::too_many_classes), HasSubstr("input.classes"));
  EXPECT_THAT(said_of(Mistake::no_flatten), HasSubstr("flatten"));
  EXPECT_THAT(said_of(Mistake::undefined), HasSubstr("undefined"));
}

TEST(CheckModule, AnErrorOfForwardSaysWhereItCameFrom) {
  EXPECT_THAT(said_of(Mistake::wrong_features), HasSubstr("for images [2, 1, 4, 4]: "));
  EXPECT_THAT(said_of(Mistake::wrong_features), HasSubstr("as many input features"));
  EXPECT_THAT(said_of(Mistake::throws), HasSubstr("my forward failed"));
}

TEST(CheckModule, OneTensorIsOneParameter) {
  EXPECT_THAT(said_of(Mistake::registered_twice), HasSubstr("\"hidden.weight\" and \"again.weight\""));
}

TEST(CheckModule, TheOutputDependsOnParameters) {
  EXPECT_THAT(said_of(Mistake::detached), HasSubstr("depends on no parameter"));
}

TEST(CheckModule, AFunctionThatGivesNoModuleIsAnError) {
  const auto none = network("net", [](const NetworkInput&) { return std::shared_ptr<NetImpl>(); });
  EXPECT_THROW(none.make(kTinyInput), Error);
}

}  // namespace
}  // namespace lockstep::nn
