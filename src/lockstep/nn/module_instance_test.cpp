// Modules of one's own on the kernels of this project, against the same modules on the engine's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/direct/direct_convolution.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {
namespace {

const NetworkInput kInput{.channels = 3, .height = 12, .width = 10, .classes = 5};

/// As in PyTorch's own first example: pictures are viewed as rows before the last layer.
struct ViewingNetImpl : torch::nn::Module {
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear last{nullptr};
  bool was_channels_last = false;

  explicit ViewingNetImpl(const NetworkInput& input) {
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 20, 5).padding(2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(20));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(20, 20, 3).padding(1)));
    last = register_module("last", torch::nn::Linear(20 * (input.height / 2) * (input.width / 2), input.classes));
  }
  at::Tensor forward(const at::Tensor& pictures) {
    was_channels_last = pictures.stride(1) == 1;
    const at::Tensor features = at::max_pool2d(at::relu(second(at::relu(norm(first(pictures))))), 2);
    return last(features.view({features.size(0), -1}));
  }
};
TORCH_MODULE(ViewingNet);

struct Results {
  at::Tensor logits = {};
  std::vector<at::Tensor> gradients = {}, buffers = {};
};

Results train_once(const Instance& instance, const at::Tensor& pictures, bool own_kernels) {
  const DirectConvolutions scope(own_kernels);
  instance.module->train();
  instance.module->zero_grad();
  Results results{instance.forward(pictures)};
  results.logits.square().sum().backward();
  for (const at::Tensor& parameter : instance.module->parameters()) results.gradients.push_back(parameter.grad().clone());
  for (const at::Tensor& buffer : instance.module->buffers()) results.buffers.push_back(buffer.clone());
  return results;
}

void expect_near(const at::Tensor& ours, const at::Tensor& engine) {
  const at::Tensor wanted = engine.to(at::kDouble);
  EXPECT_LE((ours.to(at::kDouble) - wanted).abs().max().item<double>(), 2e-4 * std::max(1.0, wanted.abs().max().item<double>()));
}

template <class Net>
Instance instance_of(const NetworkInput& input) {
  torch::manual_seed(3);
  return network("own", [](const NetworkInput& wanted) { return Net(wanted); }).make(input);
}

TEST(OwnModules, TrainChannelsLastAsTheEngineTrainsThem) {
  for (const int64_t channels : {1, 3}) {
    SCOPED_TRACE(channels);
    NetworkInput input = kInput;
    input.channels = channels;
    const at::Tensor pictures = at::randn({6, channels, input.height, input.width});
    const Instance instance = instance_of<ViewingNet>(input);
    const Results engine = train_once(instance_of<ViewingNet>(input), pictures, false), ours = train_once(instance, pictures, true);
    EXPECT_TRUE(instance.channels_last);
    EXPECT_TRUE(dynamic_cast<ViewingNetImpl&>(*instance.module).was_channels_last);
    expect_near(ours.logits, engine.logits);
    for (size_t i = 0; i < engine.gradients.size(); ++i) expect_near(ours.gradients[i], engine.gradients[i]);
    for (size_t i = 0; i < engine.buffers.size(); ++i) expect_near(ours.buffers[i], engine.buffers[i]);
  }
}

/// The output of a batch norm is read by a ReLU, in place or not, and by others.
struct SharingNetImpl : torch::nn::Module {
  torch::nn::Conv2d first{nullptr};
  torch::nn::BatchNorm2d norm{nullptr}, other{nullptr};
  torch::nn::Linear last{nullptr};

  explicit SharingNetImpl(const NetworkInput& input) {
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 20, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(20));
    other = register_module("other", torch::nn::BatchNorm2d(20));
    last = register_module("last", torch::nn::Linear(20, input.classes));
  }
  at::Tensor forward(const at::Tensor& pictures) {
    const at::Tensor normalized = norm(first(pictures));
    at::Tensor again = other(normalized * 0.5 + torch::relu(normalized));
    const at::Tensor before = again * 2;
    again.relu_();
    return last((again + before + normalized).mean({2, 3}));
  }
};
TORCH_MODULE(SharingNet);

TEST(OwnModules, MayReadABatchNormBesideItsReLU) {
  const at::Tensor pictures = at::randn({6, 3, 12, 10});
  const Results engine = train_once(instance_of<SharingNet>(kInput), pictures, false), ours = train_once(instance_of<SharingNet>(kInput), pictures, true);
  expect_near(ours.logits, engine.logits);
  for (size_t i = 0; i < engine.gradients.size(); ++i) expect_near(ours.gradients[i], engine.gradients[i]);
}

TEST(OwnModules, SeeTheGradientOfABatchNormThatAReLUReads) {
  const DirectConvolutions scope(true);
  torch::manual_seed(3);
  torch::nn::BatchNorm2d norm(20);
  const at::Tensor input = at::randn({4, 20, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor normalized = norm(input);
  normalized.retain_grad();
  torch::relu(normalized).sum().backward();
  EXPECT_TRUE(at::equal(normalized.grad(), normalized.detach().gt(0).to(at::kFloat)));
}

// A part of it would be missing without a word.
TEST(OwnModules, HaveNoSecondDerivative) {
  const Instance instance = instance_of<ViewingNet>(kInput);
  const at::Tensor pictures = at::randn({2, 3, 12, 10}).requires_grad_();
  const auto penalty = [&](bool own_kernels) {
    const DirectConvolutions scope(own_kernels);
    return torch::autograd::grad({instance.forward(pictures).sum()}, {pictures}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0].square().sum();
  };
  EXPECT_TRUE(penalty(false).requires_grad());
  EXPECT_THROW(penalty(true), Error);
}

TEST(OwnModules, MayChangeWhatTheyView) {
  const DirectConvolutions scope(true);
  at::Tensor pictures = at::randn({2, 20, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  pictures.view({2, 20, 16}).zero_();
  EXPECT_EQ(pictures.abs().sum().item<float>(), 0);
  EXPECT_EQ(pictures.view({2, -1}).sizes(), at::IntArrayRef({2, 320}));
  EXPECT_THROW(pictures.view({3, -1}), c10::Error);
}

TEST(OwnModules, AreGivenPicturesAsBeforeOutsideOfTheScope) {
  const Instance instance = instance_of<ViewingNet>(kInput);
  train_once(instance, at::randn({2, 3, 12, 10}), false);
  EXPECT_FALSE(dynamic_cast<ViewingNetImpl&>(*instance.module).was_channels_last);
}

/// Reads memory in the order that it takes for granted.
struct PointerNetImpl : torch::nn::Module {
  torch::nn::Linear last{nullptr};
  explicit PointerNetImpl(const NetworkInput& input) { last = register_module("last", torch::nn::Linear(input.channels * input.height * input.width, input.classes)); }
  at::Tensor forward(const at::Tensor& pictures) {
    return last(at::from_blob(pictures.data_ptr(), {pictures.size(0), pictures.numel() / pictures.size(0)}, at::kFloat));
  }
};
TORCH_MODULE(PointerNet);

TEST(OwnModules, ThatReadMemoryAreNotGivenItInAnotherOrder) {
  const Instance instance = instance_of<PointerNet>(kInput);
  EXPECT_FALSE(instance.channels_last);
  const at::Tensor pictures = at::randn({4, 3, 12, 10});
  const at::Tensor wanted = instance.forward(pictures);
  const DirectConvolutions scope(true);
  EXPECT_TRUE(at::allclose(instance.forward(pictures), wanted, 1e-4, 1e-5));
}

struct PartlyHeldNetImpl : ViewingNetImpl {
  torch::nn::Dropout held{nullptr};
  explicit PartlyHeldNetImpl(const NetworkInput& input) : ViewingNetImpl(input) {
    held = register_module("held", torch::nn::Dropout(0.5));
    held->eval();
  }
};
TORCH_MODULE(PartlyHeldNet);

TEST(OwnModules, KeepTheirModesAndTheGeneratorThroughTheTrial) {
  const Instance instance = instance_of<PartlyHeldNet>(kInput);
  const at::Tensor drawn = at::rand({1});
  auto& module = dynamic_cast<PartlyHeldNetImpl&>(*instance.module);
  EXPECT_TRUE(module.is_training());
  EXPECT_TRUE(module.norm->is_training());
  EXPECT_FALSE(module.held->is_training());
  EXPECT_EQ(module.norm->num_batches_tracked.item<int64_t>(), 0);
  torch::manual_seed(3);
  const PartlyHeldNet alone(kInput);
  EXPECT_TRUE(at::equal(drawn, at::rand({1})));
}

}  // namespace
}  // namespace lockstep::nn
